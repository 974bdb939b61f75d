import asyncio
import base64
import datetime
import json
import re
import shlex
import textwrap
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import httpx
import numpy as np
import openai
import pytest
from live_server import WEB, Process, figure, serving, wait_for

from rankencoder import RankEncoder
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError

DOCS = Path(__file__).parents[1] / "docs/serving.md"
A, B = "The cat sees the dog", "The dog sees the cat"


@pytest.fixture(scope="module")
def model(tiny_saved):
    return RankEncoder.load(tiny_saved, device="cpu")


@pytest.fixture(scope="module")
def url(tiny_saved):
    with serving(RankEncoder.load(tiny_saved, device="cpu"), name="tiny") as address:
        yield address


@pytest.fixture(scope="module")
def client(url):
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none needed", max_retries=0)


@pytest.mark.parametrize("encoding", ["float", "base64", None])
def test_openai_client_gets_the_vectors_of_encode(client, model, sentences, encoding):
    texts = sentences[::7]  # more than a batch, in no order of length
    options = {"encoding_format": encoding} if encoding else {}  # without, it asks for base64 by itself
    answer = client.embeddings.create(model="tiny", input=texts, **options)
    vectors = [row.embedding for row in answer.data]
    if encoding == "base64":
        vectors = [np.frombuffer(base64.b64decode(row), dtype="<f4") for row in vectors]
    np.testing.assert_allclose(np.array(vectors), model.encode(texts), atol=1e-5)
    assert [row.index for row in answer.data] == list(range(len(texts)))
    assert answer.model == "tiny"
    read = model.encoder.model.preprocess(texts)["attention_mask"].sum()
    assert answer.usage.prompt_tokens == answer.usage.total_tokens == int(read)


def test_openai_client_one_sentence_model_list_and_refusals(client, model):
    one = client.embeddings.create(model="tiny", input=A, dimensions=model.dimension, user="me")
    np.testing.assert_allclose(one.data[0].embedding, model.encode(A), atol=1e-5)
    long = client.embeddings.create(model="tiny", input="cat " * 200)
    assert long.usage.prompt_tokens == 64  # what the encoder reads of it
    assert [served.id for served in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny") == client.models.list().data[0]
    with pytest.raises(openai.NotFoundError, match="no model 'a/b': choose from 'tiny'"):
        client.models.retrieve("a/b")
    with pytest.raises(openai.NotFoundError, match="no model 'text-embedding-3-small': choose from 'tiny'"):
        client.embeddings.create(model="text-embedding-3-small", input=A)
    for wrong, param in (
        ({"dimensions": 3}, "dimensions"),
        ({"input": [1, 2, 3]}, "input"),
        ({"input": [[1, 2], [3]]}, "input"),
        ({"input": " "}, "input"),
        ({"input": []}, "input"),
    ):
        with pytest.raises(openai.UnprocessableEntityError) as caught:
            client.embeddings.create(**{"model": "tiny", "input": A, **wrong})
        assert caught.value.param == param
        assert caught.value.type == "invalid_request_error"


def test_similarity_and_explain_are_the_librarys(url, model, sentences):
    a, b = sentences[:70], [*sentences[100:110], "cat"]
    # float32: batches of other sizes differ in the sixth digit
    answer = WEB.post(f"{url}/similarity", json={"a": a, "b": b}).json()
    np.testing.assert_allclose(answer["similarity"], model.similarity(a, b), atol=1e-5)
    one = WEB.post(f"{url}/similarity", json={"a": A, "b": B}).json()
    np.testing.assert_allclose(one["similarity"], model.similarity(A, B), atol=1e-5)
    explained = WEB.post(f"{url}/explain", json={"a": A, "b": B, "k": 20}).json()
    expected = model.explain(A, B, 20).to_dict()
    assert explained.pop("probability") is None  # nothing was labeled
    assert explained.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, float):
            assert explained[name] == pytest.approx(value, abs=1e-5)
    assert [n["sentence"] for n in explained["shared"]] == [n["sentence"] for n in expected["shared"]]
    assert [n["rank"] for n in explained["neighbors_a"]] == list(range(1, 21))


def test_a_plain_encoder_has_vectors_and_no_explanations(tiny_folder):
    encoder = Encoder(tiny_folder, device="cpu")
    with serving(encoder) as url:
        answer = WEB.post(f"{url}/v1/embeddings", json={"input": [A, B]}).json()
        np.testing.assert_allclose(
            [row["embedding"] for row in answer["data"]], encoder([A, B]).numpy(), atol=1e-5
        )
        refused = WEB.post(f"{url}/explain", json={"a": A, "b": B})
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_reference_corpus")


@pytest.fixture(scope="module")
def index(tiny_saved, sentences, tmp_path_factory):
    pytest.importorskip("lancedb")
    from rankencoder.search.rank_index import RankIndex

    folder = tmp_path_factory.mktemp("index")
    corpus = folder / "corpus.jsonl"
    rows = [{"text": text, "year": 1900 + i, "lang": "en"} for i, text in enumerate(sentences[:300])]
    corpus.write_text("\n".join(map(json.dumps, rows)))
    RankIndex.create(str(tiny_saved), folder / "index").add(corpus)
    return folder / "index"


def test_search_is_the_indexs(model, url, index, sentences):
    from rankencoder.search.rank_index import RankIndex

    where = {"year": {"gt": 1950}, "lang": ["en", "de"]}
    expected = RankIndex.load(index, model).search(A, 7, where=where)
    with serving(model, index=RankIndex.load(index, model)) as other:
        answer = WEB.post(f"{other}/search", json={"query": A, "k": 7, "where": where}).json()
        for found, hit in zip(answer["results"], expected, strict=True):
            assert (found["id"], found["text"], found["columns"]) == (hit.id, hit.text, hit.columns)
            assert found["score"] == pytest.approx(hit.score, abs=1e-6)
            assert found["percentile"] == pytest.approx(hit.percentile, abs=1e-3)
        found = WEB.post(f"{other}/search", json={"query": sentences[7]}).json()["results"]
        assert found[0]["text"] == sentences[7]
        for where in (
            {"yaer": 1},
            {"year": "soon"},
            {"year": {"near": 1}},
            {"year": [[1]]},
            {"year": {"gt": {"gt": 1}}},
            {"year": list(range(10_000))},
            {"lang": "' OR 1 = 1 --" * 1000},
        ):
            refused = WEB.post(f"{other}/search", json={"query": A, "where": where})
            assert refused.status_code == 422, (where, refused.text)
            assert refused.json()["error"]["param"] == "where"
            assert "cannot filter by" in refused.json()["error"]["message"]
        for where in ("year = 1", [], 1):
            refused = WEB.post(f"{other}/search", json={"query": A, "where": where})
            assert (refused.status_code, refused.json()["error"]["param"]) == (422, "where")
        quoted = WEB.post(f"{other}/search", json={"query": A, "where": {"lang": "' OR 1 = 1 --"}})
        assert quoted.json()["results"] == []
    assert WEB.post(f"{url}/search", json={"query": A}).json()["error"]["code"] == "no_index"


@pytest.fixture(scope="module")
def odd(tiny_saved, tmp_path_factory):
    """The folder of an index with columns that JSON has no types for."""
    pytest.importorskip("lancedb")
    import pyarrow as pa
    import pyarrow.parquet as pq

    from rankencoder.search.rank_index import RankIndex

    folder = tmp_path_factory.mktemp("odd")
    time = datetime.datetime(2020, 1, 1, 10)
    columns = {
        "text": ["The cat sees", "The dog sees"],
        "data": [b"\xff\xfe", b"\x00"],
        "day": [datetime.date(2019, 1, 1), time.date()],
        "at": pa.array([time - datetime.timedelta(1), time], pa.timestamp("us")),
        "x": [float("nan"), float("inf")],
        "price": [Decimal("1.50"), Decimal("2.25")],
    }
    pq.write_table(pa.table(columns), folder / "corpus.parquet")
    RankIndex.create(str(tiny_saved), folder / "index").add(folder / "corpus.parquet", column="text")
    return folder / "index"


def test_columns_of_any_type_are_found_and_dates_filtered_by(model, odd):
    from rankencoder.search.rank_index import RankIndex

    with serving(model, index=RankIndex.load(odd, model)) as url:

        def found(where=None):
            answer = WEB.post(f"{url}/search", json={"query": "The dog sees", "where": where})
            assert answer.status_code == 200, (where, answer.text)
            return answer.json()["results"]

        assert [hit["text"] for hit in found()] == ["The dog sees", "The cat sees"]
        columns = found()[1]["columns"]
        assert base64.b64decode(columns.pop("data")) == b"\xff\xfe"
        assert float(columns.pop("price")) == 1.5
        assert columns == {"day": "2019-01-01", "at": "2019-12-31T10:00:00", "x": None}
        for where in ({"day": {"gte": "2020-01-01"}}, {"at": "2020-01-01T10:00:00"}):
            assert [hit["text"] for hit in found(where)] == ["The dog sees"], where
        refused = WEB.post(f"{url}/search", json={"query": A, "where": {"day": "2020-13-01"}})
        assert (refused.status_code, "cannot filter by" in refused.text) == (422, True)


def test_columns_that_another_process_adds_can_be_filtered_by(model, tmp_path):
    pytest.importorskip("lancedb")
    from rankencoder.search.rank_index import RankIndex

    index = RankIndex.build(model, ["The cat sees"], tmp_path / "index")
    with serving(model, index=RankIndex.load(tmp_path / "index", model)) as url:
        body = {"query": A, "where": {"year": 1990}}
        assert WEB.post(f"{url}/search", json=body).status_code == 422
        index.add([{"text": "The dog sees", "year": 1990}])
        assert [hit["text"] for hit in WEB.post(f"{url}/search", json=body).json()["results"]] == [
            "The dog sees"
        ]


def test_the_documented_requests_work(model, tiny_saved, index):
    from rankencoder.search.rank_index import RankIndex

    text = DOCS.read_text(encoding="utf-8").replace('load("my-encoder")', f"load({str(tiny_saved)!r})")
    commands = re.findall(r"^curl .*\\\n.*$", text, flags=re.MULTILINE)
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    assert (len(commands), len(blocks)) == (4, 2)
    with serving(model, index=RankIndex.load(index, model), name="my-encoder") as other:
        for command in commands:
            words = shlex.split(command.replace("\\\n", " ").replace("http://127.0.0.1:8000", other))
            kind, body = words[words.index("-H") + 1].partition(": ")[::2], words[words.index("-d") + 1]
            answer = WEB.post(words[1], content=body, headers=[kind])
            assert answer.status_code == 200, (command, answer.text)
        for block in blocks:
            exec(compile(block.replace("http://127.0.0.1:8000", other), "serving.md", "exec"), {})


def test_an_index_of_another_model_is_refused_at_once(run_cli, tiny_folder, index):
    code, _, error = run_cli("serve", tiny_folder, "--index", index, "--port", 0)
    assert (code, "was made with" in error) == (2, True)


def test_health_description_and_metrics(url, model):
    assert WEB.get(f"{url}/health").json()["dimension"] == model.dimension
    head = WEB.head(f"{url}/health")
    assert (head.status_code, head.content) == (200, b"")
    schema = WEB.get(f"{url}/openapi.json").json()
    assert {"/v1/embeddings", "/similarity", "/explain", "/search", "/health", "/metrics"} <= set(
        schema["paths"]
    )
    before = figure(url, "rankencoder_sentences_total")
    WEB.post(f"{url}/v1/embeddings", json={"input": [A, B]})
    assert figure(url, "rankencoder_sentences_total") == before + 2
    tokens = figure(url, "rankencoder_tokens_total")
    WEB.post(f"{url}/explain", json={"a": A, "b": B})
    assert figure(url, "rankencoder_sentences_total") == before + 4
    read = model.encoder.model.preprocess([A, B])["attention_mask"].sum()
    assert figure(url, "rankencoder_tokens_total") == tokens + int(read)
    assert figure(url, "rankencoder_waiting_sentences") == 0
    requests = "rankencoder_requests_total"
    assert figure(url, f'{requests}{{model="tiny",path="/v1/embeddings",status="200"}}') > 0
    WEB.get(f"{url}/never-heard-of")
    assert figure(url, f'{requests}{{model="",path="other",status="404"}}') > 0


def test_64_clients_at_once_each_get_their_own(url, model, sentences):
    def ask(number):
        texts = [sentences[number + 64 * i] for i in range(4)]
        with httpx.Client(timeout=300) as own:
            answers = [own.post(f"{url}/v1/embeddings", json={"input": text}) for text in texts]
        return texts, [answer.json()["data"][0]["embedding"] for answer in answers]

    before = figure(url, "rankencoder_batch_sentences_count")
    with ThreadPoolExecutor(64) as pool:
        for texts, vectors in pool.map(ask, range(64)):
            np.testing.assert_allclose(vectors, model.encode(texts), atol=1e-5)
    assert figure(url, "rankencoder_batch_sentences_count") - before < 200  # of 256: some went together


def test_a_batch_is_never_larger_than_it_may_be():
    from rankencoder.server.request_log import LOG_FIELDS, Metrics
    from rankencoder.server.served_model import ServedModel

    sizes = []

    def encode(texts):
        if texts == ["Warm up."]:
            return [[1.0, 1.0]]
        sizes.append(len(texts))
        return [[1.0, float(text)] for text in texts]

    async def ask():
        LOG_FIELDS.set({})
        batcher = ServedModel(Encoder(encode), "model", None, Metrics(), 4)
        pieces = [["1", "2", "3"], ["4", "5"], ["6", "7"], ["8", "9", "10", "11", "12"]]
        async with batcher.running():
            answers = await asyncio.wait_for(asyncio.gather(*map(batcher.encode, pieces)), 20)
        ratios = [answer.vectors[:, 1] / answer.vectors[:, 0] for answer in answers]
        return [[f"{round(value)}" for value in one] for one in ratios] == pieces

    assert asyncio.run(ask())
    assert sizes == [4, 4, 3, 1]


def test_a_sentence_that_cannot_be_encoded_harms_nobody_else(monkeypatch):
    def picky(texts):
        if any("poison" in text for text in texts):
            raise InputError("this poison is not for me")
        if any("bomb" in text for text in texts):
            raise RuntimeError("secret bomb")
        return [[1.0, len(text)] for text in texts]

    monkeypatch.setattr("rankencoder.server.served_model.WAIT", 0.3)
    with serving(Encoder(picky)) as url:

        def ask(text):
            return WEB.post(f"{url}/v1/embeddings", json={"input": text})

        with ThreadPoolExecutor(4) as pool:
            good, poison, bomb, other = pool.map(ask, ["good", "poison", "bomb", "other"])
        assert (good.status_code, other.status_code) == (200, 200)
        assert (poison.status_code, "for me" in poison.text) == (422, True)
        assert bomb.status_code == 500
        assert "secret" not in bomb.text
        assert "Traceback" not in bomb.text
        assert figure(url, "rankencoder_batch_sentences_count") == 2


GATED = """
    import logging, sys, time
    from pathlib import Path
    from rankencoder.encoders import Encoder
    from rankencoder.server.server_app import create_app
    from rankencoder.web_process import bind, run

    gate = Path(sys.argv[1])

    def gated(texts):
        while len(texts[0]) == 41 and not gate.exists():
            time.sleep(0.02)
        return [[1.0, len(text)] for text in texts]

    logging.basicConfig(level=logging.INFO)
    run(create_app(Encoder(gated)), bind("127.0.0.1", 0), grace=300)
"""


def test_sigterm_finishes_what_is_in_flight(tmp_path):
    script, gate = tmp_path / "gated.py", tmp_path / "gate"
    script.write_text(textwrap.dedent(GATED))
    with Process(script, gate, log=tmp_path / "log") as server, ThreadPoolExecutor(8) as pool:
        body = {"input": "A sentence that has to wait for the gate."}
        answers = [
            pool.submit(httpx.post, f"{server.url}/v1/embeddings", json=body, timeout=300) for _ in range(8)
        ]
        wait_for(lambda: figure(server.url, "rankencoder_waiting_sentences") == 8)
        server.terminate()
        wait_for(lambda: refuses(server.url))
        assert not any(answer.done() for answer in answers)
        gate.touch()
        assert [answer.result().status_code for answer in answers] == [200] * 8
        assert server.wait() == 0
        assert "stopped" in server.text().splitlines()[-1]


def refuses(url):
    try:
        httpx.get(f"{url}/health", timeout=1)
    except httpx.ConnectError:
        return True
    except httpx.HTTPError:
        return False
    return False


def test_a_port_is_taken_at_once():
    from rankencoder.web_process import bind

    with bind("127.0.0.1", 0) as taken, pytest.raises(InputError, match="cannot listen on"):
        bind("127.0.0.1", taken.getsockname()[1])


def test_command_line_says_what_is_wrong(run_cli, tiny_saved, tmp_path, monkeypatch):
    from rankencoder.web_process import bind

    taken = bind("127.0.0.1", 0)
    port = taken.getsockname()[1]
    empty = tmp_path / "key"
    empty.write_text("\n")
    for arguments, message in (
        ([tmp_path / "none"], "cannot load encoder"),
        ([tiny_saved, "--port", port], f"cannot listen on 127.0.0.1:{port}"),
        ([tiny_saved, "--api-key-file", empty], "holds no API key"),
        ([tiny_saved, "--api-key-file", tmp_path / "none"], "No such file"),
    ):
        code, _, error = run_cli("serve", *arguments)
        assert (code, error.count("\n")) == (2, 1)
        assert message in error
    taken.close()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    code, _, error = run_cli("serve", tiny_saved)
    assert (code, "'.[serve]'" in error) == (2, True)
