"""What exceptions of real libraries say."""

import email.message
import http.client
import http.server
import io
import socket
import threading
import urllib.error

import aiohttp
import asyncio
import botocore.exceptions
import httpx
import pytest
import requests

import backstop
from backstop.failures import describe


@pytest.fixture(scope="module")
def busy():
    """A service that is always busy."""

    class Busy(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(429)
            self.send_header("Retry-After", "7")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Busy)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


@pytest.fixture(scope="module")
def nobody():
    """An address at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/"


def raised(call):
    with pytest.raises(Exception) as caught:
        call()
    return describe(caught.value)


def test_a_service_of_aws_has_the_code_of_the_service():
    error = botocore.exceptions.ClientError(
        {
            "Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"},
            "ResponseMetadata": {"HTTPStatusCode": 400, "HTTPHeaders": {"retry-after": "3"}},
        },
        "GetItem",
    )
    said = describe(error)
    assert (said.code, said.status, said.retry_after) == ("ThrottlingException", 400, "3")
    assert backstop.Policy("full-jitter").decide(error).error_class == "throttled"


async def aiohttp_get(url):
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        await session.get(url)


LIBRARIES = {
    "requests": lambda url: requests.get(url, timeout=5).raise_for_status(),
    "httpx": lambda url: httpx.get(url).raise_for_status(),
    "aiohttp": lambda url: asyncio.run(aiohttp_get(url)),
    "urllib": lambda url: __import__("urllib.request").request.urlopen(url, timeout=5),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_response_has_its_status_and_the_time_to_wait(library, busy):
    said = raised(lambda: LIBRARIES[library](busy))
    assert (said.code, said.status, said.retry_after) == ("HTTP 429", 429, "7"), said.message


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_connection_that_is_refused_has_a_code_of_the_network(library, nobody):
    said = raised(lambda: LIBRARIES[library](nobody))
    assert (said.code, said.status) == ("ECONNREFUSED", None), said.message


def test_what_the_program_says_itself():
    said = describe(backstop.RetryAfter("1m30s", "Busy", "ten a minute", details={"tenant": "t-1"}))
    assert (said.code, said.message, said.status, said.wait) == ("Busy", "ten a minute", 429, 90.0)
    assert said.details == [("tenant", "t-1")]
    assert describe(backstop.Permanent("NoSuchArticle")).kind == "permanent"
    assert describe(backstop.Unavailable()).kind == "unavailable"
    assert describe(ValueError("no such article")).code == "ValueError"
    decide = backstop.Policy("full-jitter").decide
    assert decide(backstop.Permanent("Anything")).verdict == "dead-letter"
    assert decide(backstop.Transient("Anything")).error_class == "transient"
    assert decide(backstop.Throttled("Anything")).error_class == "throttled"


def test_exceptions_of_another_library_mean_what_the_program_says():
    class CardError(Exception):
        pass

    class Declined(CardError):
        pass

    @backstop.describes(CardError)
    def card_error(error):
        return backstop.Permanent("CardDeclined", str(error))

    said = describe(Declined("no money"))
    assert (said.code, said.message, said.kind) == ("CardDeclined", "no money", "permanent")
    with pytest.raises(TypeError, match="no class of exceptions"):
        backstop.describes("CardError")


def test_what_is_large_or_strange_is_bounded():
    said = describe(ValueError("x" * 1_000_000))
    assert len(said.message) == 4096

    class Strange(Exception):
        response = {"Error": "text", "ResponseMetadata": 5}
        status = "high"
        headers = {"Retry-After": 7}

        def __str__(self):
            raise RuntimeError("no text")

    said = describe(Strange())
    assert (said.code, said.status, said.retry_after) == ("Strange", None, None)
    assert "can't be read" in said.message
    empty = describe(Exception())
    assert (empty.code, empty.message) == ("Exception", "")


def test_the_traceback_is_where_it_was_raised_and_bounded():
    def deep(level):
        if level == 0:
            raise KeyError("weight")
        deep(level - 1)

    try:
        deep(500)
    except KeyError as error:
        ((name, text),) = describe(error, with_traceback=True).details
    assert name == "traceback" and 'raise KeyError("weight")' in text and len(text) <= 2048
