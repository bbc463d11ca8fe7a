"""The same worker with Flask."""

from flask import Flask, request
from orders import Busy, Invalid, ship
from werkzeug.exceptions import BadRequest

app = Flask(__name__)


@app.post("/")
def work():
    ship(request.get_json(force=True))
    return "", 204


@app.errorhandler(Exception)
def failed(error):
    answer = {"errorType": type(error).__name__, "errorMessage": str(error)}
    match error:
        case Invalid():
            return answer, 422
        case Busy():
            return answer, 429, {"Retry-After": "1"}
        case BadRequest():  # the body is no JSON
            return answer, 400
    return answer, 500
