"""What an exception says about an attempt: the code that the policy classifies, a text, a status, a time to wait."""

from __future__ import annotations

import errno
import traceback
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Type, TypeVar

from backstop.times import Time, seconds

# The crates cut both again: a policy receives 4 KiB of text, and of details.
_MESSAGE = 4096
_TRACEBACK = 2048


class Failure(Exception):
    """An attempt that has failed, with a code of your own.

    `code` is what the policy classifies, such as "CardDeclined". `status` is an HTTP status, `retry_after` the time after which the other side asked to be called again, and `details` are texts that the policy sees by name.
    """

    kind: Optional[str] = None

    def __init__(
        self,
        code: Optional[str] = None,
        message: str = "",
        *,
        status: Optional[int] = None,
        retry_after: Optional[Time] = None,
        details: Optional[Mapping[str, str]] = None,
    ) -> None:
        code = code or type(self).__name__
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.message = message
        self.status = status
        self.retry_after = None if retry_after is None else seconds("retry_after", retry_after)
        self.details = dict(details or {})


class Permanent(Failure):
    """No further attempt can succeed: the message becomes a dead letter, the call ends."""

    kind = "permanent"


class Transient(Failure):
    """Another attempt may succeed. Its status is 503, unless you say another one."""

    def __init__(self, code: Optional[str] = None, message: str = "", *, status: Optional[int] = 503, **more: Any) -> None:
        super().__init__(code, message, status=status, **more)


class Throttled(Failure):
    """What is called has too much to do. Its status is 429, unless you say another one."""

    def __init__(self, code: Optional[str] = None, message: str = "", *, status: Optional[int] = 429, **more: Any) -> None:
        super().__init__(code, message, status=status, **more)


class RetryAfter(Throttled):
    """What is called has said when it wants to be called again."""

    def __init__(self, time: Time, code: Optional[str] = None, message: str = "", **more: Any) -> None:
        super().__init__(code, message, retry_after=time, **more)


class Unavailable(Failure):
    """The worker itself is not ready, and has not seen the message: no attempt is counted, and the host receives nothing more until an attempt succeeds again."""

    kind = "unavailable"


class Described:
    """An exception as the crates receive it."""

    __slots__ = ("code", "details", "kind", "message", "retry_after", "status", "wait")

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        self.status: Optional[int] = None
        self.retry_after: Optional[str] = None
        self.wait: Optional[float] = None
        self.details: List[Tuple[str, str]] = []
        self.kind: Optional[str] = None


E_ = TypeVar("E_", bound=BaseException)
_OWN: Dict[type, Callable[[Any], Failure]] = {}


def describes(exception: Type[E_]) -> Callable[[Callable[[E_], Failure]], Callable[[E_], Failure]]:
    """Says what an exception of another library means, and those that are derived from it:

        @backstop.describes(stripe.CardError)
        def card_error(error):
            return backstop.Permanent(error.code, str(error))
    """
    if not (isinstance(exception, type) and issubclass(exception, BaseException)):
        raise TypeError(f"describes: {exception!r} is no class of exceptions")

    def keep(describe: Callable[[E_], Failure]) -> Callable[[E_], Failure]:
        _OWN[exception] = describe
        return describe

    return keep


def describe(error: BaseException, *, with_traceback: bool = False) -> Described:
    """What an exception says."""
    for base in type(error).__mro__ if _OWN else ():
        own = _OWN.get(base)
        if own is not None:
            said = own(error)
            if not isinstance(said, Failure):
                raise TypeError(f"describes({base.__name__}): expected a backstop.Failure, and not {said!r}")
            return _failure(said)
    if isinstance(error, Failure):
        described = _failure(error)
    else:
        described = Described(type(error).__name__, _text(error))
        _response(error, described)
        _system(error, described)
    if with_traceback and error.__traceback__ is not None:
        described.details.append(("traceback", _traceback(error)))
    return described


def _failure(error: Failure) -> Described:
    described = Described(error.code, error.message[:_MESSAGE])
    described.status = error.status
    described.wait = error.retry_after
    described.details = [(str(name), str(value)) for name, value in error.details.items()]
    described.kind = error.kind
    return described


def _text(error: BaseException) -> str:
    try:
        return str(error)[:_MESSAGE]
    except Exception as of_text:
        return f"its text can't be read: {type(of_text).__name__}"


def _traceback(error: BaseException) -> str:
    """The end of the traceback: where it was raised."""
    lines = "".join(traceback.format_tb(error.__traceback__, limit=-20))
    return lines[-_TRACEBACK:]


def _response(error: BaseException, described: Described) -> None:
    """The response that an exception of botocore, requests, httpx, aiohttp or urllib has."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        of_service = response.get("Error")
        if isinstance(of_service, dict) and isinstance(of_service.get("Code"), str):
            described.code = of_service["Code"]
        metadata = response.get("ResponseMetadata")
        if isinstance(metadata, dict):
            _status(metadata.get("HTTPStatusCode"), described)
            _headers(metadata.get("HTTPHeaders"), described)
        return
    for source in (response, error):
        for name in ("status_code", "status", "code"):
            if described.status is None:
                _status(getattr(source, name, None), described)
        _headers(getattr(source, "headers", None), described)
    if described.status is not None and type(error).__name__ in _OF_STATUS:
        described.code = f"HTTP {described.status}"


# The classes that say no more than that the status was an error.
_OF_STATUS = {"HTTPError", "HTTPStatusError", "ClientResponseError"}


def _status(status: Any, described: Described) -> None:
    if isinstance(status, int) and not isinstance(status, bool) and 100 <= status <= 599:
        described.status = int(status)


def _headers(headers: Any, described: Described) -> None:
    if described.retry_after is not None or not hasattr(headers, "get"):
        return
    value = headers.get("Retry-After") or headers.get("retry-after")
    if isinstance(value, str):
        described.retry_after = value[:128]


# What a library calls it, and what the default classification knows.
_NETWORK = {
    "ConnectTimeout": "ETIMEDOUT",
    "ConnectTimeoutError": "ETIMEDOUT",
    "ReadTimeout": "ETIMEDOUT",
    "ReadTimeoutError": "ETIMEDOUT",
    "ServerDisconnectedError": "ECONNRESET",
    "RemoteProtocolError": "ECONNRESET",
    "RemoteDisconnected": "ECONNRESET",
    "ConnectionClosedError": "ECONNRESET",
    "EndpointConnectionError": "ECONNREFUSED",
}


def _system(error: BaseException, described: Described) -> None:
    """The code of the network, of an exception that is one or was raised for one."""
    if described.status is not None:
        return
    known = _NETWORK.get(type(error).__name__)
    if known is not None:
        described.code = known
        return
    if not _is_of_network(error):
        return
    cause: Optional[BaseException] = error
    for _ in range(8):
        if cause is None:
            return
        number = getattr(cause, "errno", None)
        if isinstance(cause, OSError) and isinstance(number, int) and number in errno.errorcode:
            described.code = errno.errorcode[number]
            return
        # urllib keeps the cause in an attribute.
        reason = getattr(cause, "reason", None)
        cause = cause.__cause__ or cause.__context__ or (reason if isinstance(reason, OSError) else None)


def _is_of_network(error: BaseException) -> bool:
    return isinstance(error, (ConnectionError, TimeoutError)) or any(
        base.__name__ in ("ConnectionError", "ConnectError", "ClientConnectorError", "NetworkError", "ClientOSError", "URLError") for base in type(error).__mro__
    )
