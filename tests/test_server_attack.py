"""A real server under attack: who behaves is served all the while, and the log tells no secret."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import httpx
import openai
import pytest
from live_server import WEB, Process, wait_for

KEY = "sk-under-attack-4711"
SECRET = "a very private sentence"
GOOD = {"Authorization": f"Bearer {KEY}"}


@pytest.fixture(scope="module")
def server(tiny_saved, tmp_path_factory):
    command = ("-m", "rankencoder", "serve", tiny_saved, "--port", 0, "--name", "tiny")
    log = tmp_path_factory.mktemp("attack") / "log"
    with Process(*command, log=log, RANKENCODER_API_KEY=KEY) as server:
        yield server


@contextmanager
def served_all_the_while(url):
    """Ask as a client does that behaves, and make sure that each answer is right."""
    answers, end = [], threading.Event()

    def client():
        with httpx.Client(headers=GOOD, timeout=300) as session:
            while not end.is_set():
                answer = session.post(f"{url}/v1/embeddings", json={"input": SECRET})
                answers.append((answer.status_code, len(answer.json().get("data", ()))))
                time.sleep(0.01)

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client)
        try:
            wait_for(lambda: answers or asked.done())
            before = len(answers)
            yield
            wait_for(lambda: len(answers) > before or asked.done())
        finally:
            end.set()
        asked.result()
    assert set(answers) == {(200, 1)}


def connect(url):
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=300)


def until_closed(connection):
    received = b""
    connection.settimeout(10)  # half a request is waited for: how long is the proxy's affair
    with suppress(ConnectionError, TimeoutError):
        while chunk := connection.recv(65536):
            received += chunk
    return received


def exchange(url, content):
    """Send bytes as far as they are taken, and return what comes back until the server hangs up."""
    with connect(url) as connection:
        try:
            connection.sendall(content)
        except ConnectionError:
            return b""
        return until_closed(connection)


AUTHORIZED = f"Authorization: Bearer {KEY}\r\n".encode()
HEAD = b"POST /v1/embeddings HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + AUTHORIZED
BODY = json.dumps({"input": SECRET}).encode()
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CLOSE = b"Connection: close\r\n"
SMUGGLED = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + AUTHORIZED + CLOSE + b"\r\n"


def chunked(*chunks):
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)


REQUESTS = {
    "garbage after a request": (
        HEAD + LENGTH + b"\r\n" + BODY + b"\x00\xffnonsense\r\n\r\n",
        (b"200", b"400"),
    ),
    "an enormous header": (HEAD + b"X-A: " + b"a" * 200_000 + b"\r\n\r\n", (b"400",)),
    "very many headers": (HEAD + b"X-A: a\r\n" * 20_000 + b"\r\n", (b"400",)),
    "an enormous path": (b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", (b"400",)),
    "two lengths": (HEAD + LENGTH + b"Content-Length: 3\r\n\r\n" + BODY, (b"400",)),
    "a length and chunks": (
        HEAD
        + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"
        + CLOSE
        + b"\r\n"
        + chunked(BODY, b"")
        + SMUGGLED,
        (b"200", b"400"),
    ),
    "an unknown transfer encoding": (
        HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + BODY,
        (b"400", b"501"),
    ),
    "a folded header": (
        HEAD + b"Transfer-Encoding:\r\n chunked\r\n" + LENGTH + CLOSE + b"\r\n" + BODY,
        (b"200", b"400"),
    ),
    "a blank in a header's name": (HEAD + b"Content-Length : 3\r\n\r\n{} ", (b"400",)),
    "no host": (b"GET /health HTTP/1.1\r\n\r\n", (b"400",)),
    "a negative chunk": (CHUNKED + b"\r\n-1\r\n{}\r\n", (b"400",)),
    "a chunk's long extension": (CHUNKED + b"\r\n2;" + b"a" * 200_000 + b"\r\n", (b"400",)),
    "a websocket": (
        b"GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
        (b"401",),
    ),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (b"400", b"404", b"505")),
    "a newline in a header": (
        HEAD + b"X-A: a\nX-B: b\r\n" + LENGTH + CLOSE + b"\r\n" + BODY,
        (b"200", b"400"),
    ),
}


def test_requests_that_are_hardly_any(server):
    with served_all_the_while(server.url), ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda sent: exchange(server.url, sent[0]), REQUESTS.values())
        for (name, (_, expected)), answer in zip(REQUESTS.items(), answers, strict=True):
            first = answer.split()[1:2]
            # who sends on after a refusal may lose it to the reset of the connection
            assert not first or first[0] in expected, (name, answer[:200])
            assert answer.count(b"HTTP/1.1 200") <= 1, name  # a second request was smuggled in
            assert KEY.encode() not in answer
            assert b"Traceback" not in answer


def test_the_key_is_asked_for(server):
    wrong = (
        None,
        "",
        "Bearer",
        "Bearer wrong",
        f"Basic {KEY}",
        f"Bearer {KEY}x",
        f"Bearer {KEY[:-1]}",
        KEY,
    )
    for header in wrong:
        headers = {} if header is None else {"Authorization": header}
        for method, path in (("POST", "/v1/embeddings"), ("GET", "/metrics"), ("GET", "/v1/models")):
            refused = WEB.request(method, server.url + path, headers=headers)
            assert refused.status_code == 401, (header, path)
            assert refused.headers["WWW-Authenticate"] == "Bearer"
            assert KEY not in refused.text
    assert httpx.get(f"{server.url}/health").status_code == 200
    assert "securitySchemes" in httpx.get(f"{server.url}/openapi.json").json()["components"]
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0)
    assert len(client.embeddings.create(model="tiny", input=SECRET).data) == 1
    httpx.get(f"{server.url}/{KEY}?q={KEY}", headers={"Authorization": f"Bearer {KEY}"})
    with pytest.raises(openai.AuthenticationError, match="missing or wrong API key"):
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong").models.list()


def test_a_flood_of_wrong_keys(server):
    def try_key(number):
        headers = {"Authorization": f"Bearer {KEY[:-1]}{number}"}
        return client.post(f"{server.url}/v1/embeddings", json={"input": SECRET}, headers=headers)

    with (
        served_all_the_while(server.url),
        httpx.Client(timeout=300) as client,
        ThreadPoolExecutor(8) as pool,
    ):
        assert {answer.status_code for answer in pool.map(try_key, range(10, 210))} == {401}


def test_the_log_of_all_this_tells_no_secret(server):
    text = server.text()
    assert text.count("POST /v1/embeddings 401") >= 200
    assert "POST /v1/embeddings 200" in text
    for secret in (KEY, KEY[:-1], "private", "Bearer", "Traceback", "unexpected"):
        assert secret not in text, secret
