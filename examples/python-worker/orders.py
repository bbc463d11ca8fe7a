"""The work: it knows nothing of queues."""


class Invalid(Exception):
    """No attempt can succeed."""


class Busy(Exception):
    """Too many requests: another attempt may succeed in a second."""


def ship(order):
    match order["article"]:
        case "unknown":
            raise Invalid("no such article")
        case "piano":
            raise Busy("the carrier takes ten pianos a minute")
