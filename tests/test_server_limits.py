import json
import logging
import socket

import pytest
from live_server import WEB, serving

from rankencoder.encoders import Encoder

POSTS = ("/v1/embeddings", "/similarity", "/explain", "/search")


@pytest.fixture(scope="module")
def url(tiny_model):
    with serving(tiny_model, name="tiny") as address:
        yield address


def post(url, path, content, kind="application/json"):
    headers = {} if kind is None else {"Content-Type": kind}
    return WEB.post(url + path, content=content, headers=headers)


def refusal(answer):
    """Check that an answer is a refusal of OpenAI's shape, and return status and message."""
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert "Traceback" not in answer.text
    assert "\n" not in error["message"]
    return answer.status_code, error["message"]


MALFORMED = {
    "nothing": (b"", 422),
    "a blank": (b" ", 400),
    "no JSON": (b"hello", 400),
    "half a document": (b'{"input": "a"', 400),
    "two documents": (b"{} {}", 400),
    "a zero byte": (b'{"input": "\x00"}', 400),
    "not UTF-8": (b'{"input": "\xff\xfe"}', 400),
    "NaN": (b'{"input": "a", "dimensions": NaN}', 422),
    "infinity": (b'{"input": "a", "dimensions": -Infinity}', 422),
    "deeply nested lists": (b"[" * 4000, 400),
    "deeply nested, closed": (b"[" * 2000 + b"]" * 2000, (400, 422)),
    "deeply nested objects": (b'{"a":' * 800 + b"1" + b"}" * 800, 422),
    "a huge integer": (b'{"input": "a", "dimensions": ' + b"9" * 4500 + b"}", 400),
    "a large integer": (b'{"input": "a", "dimensions": ' + b"9" * 400 + b"}", 422),
    "a huge float": (b'{"input": "a", "dimensions": 1e999}', 422),
    "a lone surrogate": (b'{"input": "\\ud800", "a": "\\ud800", "b": "\\ud800", "query": "\\ud800"}', 422),
    "a surrogate as key": (b'{"\\ud800": "a"}', 422),
    "a surrogate elsewhere": (b'{"input": "a", "model": "\\ud800", "user": "\\udfff"}', (404, 422)),
    "a list": (b'["a"]', 422),
    "a string": (b'"a"', 422),
    "null": (b"null", 422),
    "a number": (b"1", 422),
    "an empty object": (b"{}", 422),
    "an unknown field": (b'{"input": "a", "a": "a", "b": "b", "query": "q", "color": 1}', 422),
    "nulls": (b'{"input": null, "a": null, "b": null, "query": null}', 422),
    "numbers": (b'{"input": 1, "a": 1, "b": 1.5, "query": 2}', 422),
    "objects": (b'{"input": {}, "a": {}, "b": {}, "query": {}}', 422),
    "mixed lists": (b'{"input": ["a", 1], "a": ["a", null], "b": [[]], "query": ["q"]}', 422),
    "empty strings": (b'{"input": "", "a": "", "b": "", "query": ""}', 422),
    "empty lists": (b'{"input": [], "a": [], "b": [], "query": []}', 422),
}


@pytest.mark.parametrize("path", POSTS)
def test_malformed_bodies_are_refused_and_never_a_fault_of_ours(url, path):
    for name, (content, expected) in MALFORMED.items():
        status, _ = refusal(post(url, path, content))
        if path == "/search" and status == 409:
            continue  # it has no index, whatever was asked
        assert status in (expected if isinstance(expected, tuple) else (expected,)), (name, path)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"input": "a", "encoding_format": "hex"}, "encoding_format: Input should be 'float' or 'base64'"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "color": 1}, "color: unknown field"),
        ({"input": ["a", "  "]}, "input.1: String should match pattern"),
        ({"input": ["a", None]}, "input.1: Input should be a valid string"),
        ({"input": [1, 2]}, "input: token ids are not supported"),
        ({"input": [True]}, "input.0: Input should be a valid string"),
        ({"input": ["a"] * 2049}, "input: List should have at most 2048 items"),
        ({"input": "a" * 10_001}, "input.0: String should have at most 10000 characters"),
    ],
)
def test_messages(url, body, message):
    status, told = refusal(WEB.post(f"{url}/v1/embeddings", json=body))
    assert status == 422
    assert message in told


def test_limits_of_the_other_endpoints(url):
    for path, body, message in (
        ("/similarity", {"a": "a", "b": "b" * 10_001}, "b.0: String should have at most 10000 characters"),
        ("/explain", {"a": "a", "b": "b", "k": 1001}, "k: Input should be less than or equal to 1000"),
        ("/explain", {"a": "a", "b": "b", "k": 0}, "k: Input should be greater than or equal to 1"),
        ("/explain", {"a": "a", "b": "b", "k": "five"}, "k: Input should be a valid integer"),
        ("/explain", {"a": ["a"], "b": "b"}, "a: Input should be a valid string"),
    ):
        status, told = refusal(WEB.post(url + path, json=body))
        assert status == 422
        assert message in told


def test_wrong_types_methods_and_paths(url):
    body = json.dumps({"input": "a"}).encode()
    for kind in (
        None,
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        ";",
        "é",
    ):
        assert refusal(post(url, "/v1/embeddings", body, None if kind is None else kind.encode()))[0] == 422
    assert post(url, "/v1/embeddings", body, "Application/JSON; charset=utf-8").status_code == 200
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = WEB.request(method, f"{url}/v1/embeddings")
        assert refusal(answer) == (405, "Method Not Allowed")
        assert answer.headers["Allow"] == "POST"
    for path in ("/", "/v1", "/v1/embeddings/", "/../etc/passwd", "/%00", "/%ff%fe", "/docs/x", "//health"):
        assert refusal(WEB.get(url + path))[0] == 404, path


def raw(url, content):
    """Send bytes as they are, and return what comes back until the server hangs up."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=300) as connection:
        connection.sendall(content)
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        return received


HEAD = b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    "content",
    [
        b"nonsense\r\n\r\n",
        HEAD + b"Content-Length: -5\r\n\r\n{}",
        HEAD + b"Content-Length: many\r\n\r\n{}",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        HEAD + b"Content-Length: 2\r\nAuthorization: \xff\xfe\r\n\r\n{}",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # somebody speaks TLS
    ],
)
def test_what_is_hardly_http_is_refused(url, content):
    assert raw(url, content).split()[1:2] in ([b"400"], [b"422"])
    assert WEB.get(f"{url}/health").status_code == 200


def test_a_fault_of_ours_is_logged_without_the_sentence(caplog):
    def broken(texts):
        if texts != ["Warm up."]:
            raise RuntimeError(f"cannot encode {texts}")
        return [[1.0]]

    with caplog.at_level(logging.INFO, "rankencoder.server"), serving(Encoder(broken)) as url:
        answer = WEB.post(f"{url}/v1/embeddings", json={"input": "a private sentence"})
        assert refusal(answer) == (500, "the server failed; see its log")
    assert "unexpected RuntimeError" in caplog.text
    assert "in broken" in caplog.text
    assert "private" not in caplog.text
