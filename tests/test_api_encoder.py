"""Teachers behind an API: our own server, and a fake that counts sentences, fails, throttles and lies."""

import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from live_server import serving

from conftest import letters
from rankencoder.distillation import api_encoder
from rankencoder.distillation.api_encoder import ApiEncoder, ApiEstimate
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError

A, B, C = "The cat sees the dog", "The dog sees the cat", "A river"


@pytest.fixture(autouse=True)
def fast_and_alone(tmp_path, monkeypatch):
    """Retries without waiting, and a cache of the test's own."""
    monkeypatch.setenv("RANKENCODER_CACHE", str(tmp_path / "cache"))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.001)


class FakeApi(ThreadingHTTPServer):
    """Answers with the vectors of `letters`, unless the next of `faults` does something else."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.seen, self.sizes, self.keys, self.faults = [], [], set(), []
        self.always = None
        self.lock = threading.Lock()

    def answer(self, sentences):
        """Return status, headers and body; count the sentences that are answered well."""
        with self.lock:
            fault = self.faults.pop(0) if self.faults else self.always
            rows = [
                {"object": "embedding", "index": i, "embedding": row}
                for i, row in enumerate(letters(sentences).tolist())
            ]
            found = fault(sentences, rows) if fault else None
            if found is None:
                self.seen += sentences
                self.sizes.append(len(sentences))
                found = 200, {}, {"object": "list", "data": rows, "model": "m"}
            return found


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v1/embeddings"
        assert body.keys() == {"model", "input", "encoding_format"}
        self.server.keys.add(self.headers["Authorization"])
        status, headers, answer = self.server.answer(body["input"])
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", len(data))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@contextmanager
def faking():
    server = FakeApi()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def fake():
    with faking() as server:
        yield server


def refusing(status, message="no", code=None, **headers):
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda *_: (status, names, {"error": {"message": message, "code": code}})


def changing(change):
    """Answer well, but for a change of the rows."""

    def fault(sentences, rows):
        change(rows)
        return 200, {}, {"object": "list", "data": rows}

    return fault


def api(fake, **settings):
    return ApiEncoder("m", base_url=fake.url, **settings)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_our_own_server(tiny_folder, sentences):
    own = Encoder(str(tiny_folder), device="cpu")
    with serving(own, name="tiny") as url:
        teacher = Encoder(ApiEncoder("tiny", base_url=f"{url}/v1", batch=100), batch_size=8192)
        assert np.allclose(teacher.encode(sentences[:350]), own.encode(sentences[:350]), atol=1e-5)
        with pytest.raises(InputError, match=r"HTTP 404: no model 'big': choose from 'tiny'; check the"):
            ApiEncoder("big", base_url=f"{url}/v1").encode([A])
        with pytest.raises(InputError, match=r"openai:tiny refuses 'xxx.*…' \(10,001 characters\): .*10000"):
            ApiEncoder("tiny", base_url=f"{url}/v1").encode([A, "x" * 10_001, B])
    assert teacher.name == "openai:tiny"
    assert np.allclose(teacher.encode(sentences[340:350]), own.encode(sentences[340:350]), atol=1e-5)


def test_no_sentence_is_sent_twice(fake, sentences):
    texts = [*sentences[:500], *sentences[:100]]
    found = api(fake, batch=64).encode(texts)
    assert found.dtype == np.float32
    assert np.array_equal(found, letters(texts))
    assert sorted(fake.seen) == sorted(sentences[:500])
    assert max(fake.sizes) == 64
    again = api(fake)
    assert np.array_equal(again.encode(texts), found)
    assert len(fake.seen) == 500
    again.encode(sentences[490:510])
    assert sorted(fake.seen[500:]) == sorted(sentences[500:510])
    ApiEncoder("other", base_url=fake.url).encode(texts[:1])
    assert len(fake.seen) == 511


def test_after_a_death_midway_only_the_rest_is_sent(fake, sentences):
    fake.faults = [None, None, None, refusing(401)]
    fake.always = refusing(401)
    with pytest.raises(
        InputError, match=r"HTTP 401: no; set a valid key .*; 30 vectors are cached and not charged again"
    ):
        api(fake, batch=10, requests=1).encode(sentences[:100])
    assert len(fake.seen) == 30
    fake.always = None
    assert np.array_equal(api(fake).encode(sentences[:100]), letters(sentences[:100]))
    assert sorted(fake.seen) == sorted(sentences[:100])


def test_a_killed_process_has_kept_what_was_answered(fake, sentences):
    """The fourth request is never answered; the process is killed while it waits."""
    waiting, release = threading.Event(), threading.Event()

    def hang(*_):
        waiting.set()
        fake.lock.release()
        release.wait(60)
        fake.lock.acquire()
        return 500, {}, {}

    fake.faults = [None, None, None, hang]
    code = "import sys; from rankencoder.distillation.api_encoder import ApiEncoder;"
    code += "ApiEncoder('m', base_url=sys.argv[1], batch=10, requests=1).encode(sys.argv[2].split('|'))"
    texts = sentences[:60]
    process = subprocess.Popen([sys.executable, "-c", code, fake.url, "|".join(texts)])
    assert waiting.wait(60)
    process.kill()
    process.wait()
    release.set()
    assert np.array_equal(api(fake).encode(texts), letters(texts))
    assert sorted(fake.seen) == sorted(texts)


def test_requests_are_sent_side_by_side(fake, sentences):
    """Each of four requests waits for the others."""
    together = threading.Barrier(4, timeout=60)

    def meet(*_):
        fake.lock.release()
        together.wait()
        fake.lock.acquire()

    fake.faults = [meet] * 4
    assert len(api(fake, batch=5).encode(sentences[:20])) == 20


@pytest.mark.parametrize(
    "fault",
    [refusing(500), refusing(429, retry_after_ms="1"), refusing(429, retry_after="0"), refusing(503)],
)
def test_errors_that_pass(fake, fault):
    fake.faults = [fault] * 8
    assert np.array_equal(api(fake).encode([A, B]), letters([A, B]))
    assert len(fake.seen) == 2


def test_lost_connections(fake, sentences):
    def lose(*_):
        raise ConnectionAbortedError

    fake.handle_error = lambda *_: None
    encoder = api(fake, batch=5, requests=1)
    fake.faults = [None, *[lose] * 9]
    assert len(encoder.encode(sentences[:10])) == 10
    fake.always = lose
    with pytest.raises(
        InputError, match=rf"no answer from {fake.url}: .*; 10 vectors are cached and not charged again"
    ):
        encoder.encode(sentences[5:15])


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            refusing(401, "Incorrect API key"),
            "HTTP 401: Incorrect API key; set a valid key .* OPENAI_API_KEY$",
        ),
        (refusing(403), "HTTP 403: no; does the key in OPENAI_API_KEY allow this model"),
        (refusing(404, "no model m"), "openai:m at .*HTTP 404: no model m; check the name of the model and"),
        (refusing(429, "slow down", retry_after_ms="1"), "HTTP 429: slow down; throttled for more than 12"),
        (refusing(429, "You exceeded it.", "insufficient_quota"), "quota of .* is used up: You exceeded it$"),
        (refusing(500, "oh"), "HTTP 500: oh; try later"),
        (refusing(400, "too long"), rf"openai:m refuses '{A}' \(20 characters\): too long; shorten or drop"),
        (lambda *_: (200, {}, b'{"data": [{"index": 0, "embe'), "did not answer in JSON: EOF"),
        (lambda *_: (200, {"Content-Type": "text/html"}, b"<p>hi"), "did not answer in JSON: expected value"),
        (lambda *_: (200, {}, {"error": "no"}), "answered 2 sentences with 0 vectors"),
        (lambda *_: (200, {}, [3]), "answered 2 sentences with 0 vectors"),
        (lambda *_: (200, {}, {"data": [[], 1, {"index": []}]}), "answered 2 sentences with 1 vectors, 0 of"),
        (lambda *_: (200, {}, {"data": 3}), "answered 2 sentences with 0 vectors"),
        (changing(lambda rows: rows.pop()), "answered 2 sentences with 1 vectors"),
        (changing(lambda rows: rows[1].update(index=0)), "with 2 vectors, 1 of them numbered"),
        (changing(lambda rows: rows[1].pop("index")), "with 2 vectors, 1 of them numbered"),
        (changing(lambda rows: rows[1]["embedding"].pop()), "not return vectors of one dimension"),
        (changing(lambda rows: rows[1].update(embedding="AAAA")), "not return vectors of one dimension"),
    ],
)
def test_errors_that_stay(fake, fault, message):
    fake.always = fault
    with pytest.raises(InputError, match=message) as caught:
        api(fake).encode([A, B])
    assert "\n" not in str(caught.value)
    fake.always = None
    assert np.array_equal(api(fake).encode([A, B]), letters([A, B]))  # nothing wrong was stored
    assert len(fake.seen) == 2


def test_rows_are_ordered_by_index(fake):
    fake.faults = [changing(lambda rows: rows.reverse())]
    assert np.array_equal(api(fake).encode([A, B, C]), letters([A, B, C]))


@pytest.mark.parametrize("value", [None, 0.0])
def test_a_vector_that_is_none_is_not_kept_but_those_beside_it_are(fake, value):
    fake.faults = [changing(lambda rows: rows[1].update(embedding=[value] * 16))]
    with pytest.raises(
        InputError, match=f"zero, NaN or infinite vector for '{B}': drop it; 2 vectors are cached"
    ):
        api(fake).encode([A, B, C])
    assert np.array_equal(api(fake).encode([A, B, C]), letters([A, B, C]))
    assert fake.seen == [B]


def test_another_dimension(fake, tmp_path):
    api(fake).encode([A])
    fake.always = changing(lambda rows: [row["embedding"].pop() for row in rows])
    with pytest.raises(
        InputError, match=r"vectors of 15 dimensions, but 16 before: .* delete .*cache/api/m-\w+"
    ):
        api(fake).encode([A, B])


def test_a_refused_batch_is_halved_until_the_sentence_is_found(fake, sentences):
    def short(texts, rows):
        if any(len(text) > 100 for text in texts):
            return refusing(400, "maximum context length is 10 tokens")()
        return refusing(413, "at most 8 inputs")() if len(texts) > 8 else None

    fake.always = short
    assert len(api(fake).encode(sentences[:40])) == 40
    assert max(fake.sizes) <= 8
    texts = [*sentences[40:47], "long " * 40, *sentences[47:50]]
    with pytest.raises(
        InputError, match=r"refuses 'long long .*…' \(200 characters\): maximum context length"
    ):
        api(fake).encode(texts)
    assert len(fake.seen) == len(set(fake.seen)) > 40


def test_long_sentences_make_small_requests(fake):
    texts = [f"{i:02d}" + "x" * 9498 for i in range(50)]
    api(fake).encode(texts)
    assert fake.sizes
    assert max(fake.sizes) == 200_000 // len(texts[10])


def test_an_api_that_is_not_there(fake):
    with faking() as gone:
        pass
    with pytest.raises(InputError, match=rf"no answer from {gone.url}: .*[Rr]efused; check the address"):
        api(gone).encode([A])
    for url in ("localhost:8000", "ftp://x", "http://"):
        with pytest.raises(InputError, match="is not an API address: pass one such as http://localhost:8000"):
            ApiEncoder("m", base_url=url)


def test_the_key_comes_from_the_environment(fake, monkeypatch):
    with pytest.raises(InputError, match="no API key: set the environment variable OPENAI_API_KEY"):
        ApiEncoder("m")
    api(fake).encode([A])
    monkeypatch.setenv("OPENAI_API_KEY", " sk-secret\n")
    api(fake).encode([B])
    assert len(fake.keys) == 2
    assert "Bearer sk-secret" in fake.keys
    fake.always = refusing(401)
    with pytest.raises(InputError) as caught:
        api(fake).encode([C])
    assert "secret" not in str(caught.value)
    monkeypatch.setenv("OPENAI_API_KEY", "“sk-secret”")
    with pytest.raises(InputError, match="OPENAI_API_KEY does not hold an API key") as caught:
        api(fake)
    assert "secret" not in str(caught.value)


def test_openai_is_an_extra(fake, monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(InputError, match=r"an API needs openai: run pip install .*\[api\]'"):
        api(fake)


def test_the_estimate(fake, sentences):
    encoder = api(fake)
    encoder.encode(sentences[:30])
    found = encoder.estimate([*sentences[:40], *sentences[35:40]], price=2.5)
    tokens = sum(map(len, sentences[30:40])) / 4
    assert (found.sentences, found.cached) == (10, 30)
    assert abs(found.tokens - tokens) < 1
    assert found.cost == pytest.approx(tokens * 2.5 / 1e6, rel=0.02)
    assert encoder.estimate(sentences[:30]) == ApiEstimate("openai:m", 0, 30, 0, None)
    assert len(fake.seen) == 30  # nothing was sent
    assert str(ApiEstimate("openai:small", 12_000, 3_000, 312_345, 0.0062)) == (
        "openai:small: 12,000 sentences to send (3,000 already paid for), about 310,000 tokens, about $0.01"
    )
    assert str(ApiEstimate("openai:m", 5, 0, 42, None)) == "openai:m: 5 sentences to send, about 42 tokens"


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (refusing(429, "slow down", retry_after_ms="1"), "HTTP 429: slow down; throttled for more than 12"),
        (refusing(404, "no model m"), "HTTP 404: no model m; check the name of the model"),
        (refusing(500, "gone"), "HTTP 500: gone; try later"),
        (changing(lambda rows: rows[3]["embedding"].__setitem__(0, float("nan"))), "NaN or infinite vector"),
        (changing(lambda rows: [row["embedding"].pop() for row in rows]), "15 dimensions, but 16 before"),
        (changing(lambda rows: rows.pop()), "answered 256 sentences with 255 vectors"),
    ],
)
@pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")
def test_a_distillation_outlives_its_api(fake, fault, message, run_cli, tmp_path, tiny_folder, corpus_file):
    """One line, exit code 2, and resumed it sends only what was not answered."""
    asked, out = [], tmp_path / "out"

    def later(sentences, rows):
        asked.append(sentences)
        return fault(sentences, rows) if len(asked) > 2 else None

    fake.always = later
    arguments = [corpus_file, "--teacher", "openai:m", "--api-base", fake.url, "--student", tiny_folder]
    arguments += ["--batch-size", 64, "--max-steps", 2, "--device", "cpu", "--yes", "-o", out]
    code, _, err = run_cli("distill", *arguments)
    assert code == 2
    assert [message in line for line in err.splitlines() if line.startswith("error:")] == [True]
    assert "vectors are cached and not charged again" in err
    fake.always = None
    code, _, err = run_cli("distill", "--resume", "--yes", "-o", out)
    assert code == 0, err
    assert len(fake.seen) == len(set(fake.seen))


def test_patience_lasts_a_minute():
    """What the client waits without a header: 0.5 s, doubled up to 8 s, less up to a quarter."""
    waits = [min(0.5 * 2**i, 8) for i in range(api_encoder.RETRIES)]
    assert 60 <= sum(waits) * 0.875 <= 90
