"""A server of several models: chosen by name, an index that changes under it, and its log."""

import json
import shutil
import sys

import numpy as np
import pytest
import warm
from live_server import WEB, Process, figure, serving

from rankencoder import RankEncoder, RankIndex
from rankencoder.encoders import Encoder

A, B = "The cat sees the dog", "The dog sees the cat"


@pytest.fixture(scope="module")
def server(tiny_saved, tiny_folder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    RankIndex.build(str(tiny_folder), [A], folder / "index")
    command = ("-m", "rankencoder", "serve", tiny_saved, tiny_folder, "--name", "ranks", "--name", "plain")
    with Process(*command, "--index", folder / "index", "--port", 0, log=folder / "log") as server:
        yield server


def test_requests_choose_by_name(server, tiny_saved, tiny_folder):
    models = {"ranks": RankEncoder.load(tiny_saved), "plain": Encoder(tiny_folder)}
    for name, model in models.items():
        given = {"input": [A, B], "model": name}
        answer = WEB.post(f"{server.url}/v1/embeddings", json=given).json()
        vectors = [row["embedding"] for row in answer["data"]]
        assert answer["model"] == name
        np.testing.assert_allclose(vectors, model.encode([A, B]), atol=1e-5)
        found = WEB.post(f"{server.url}/similarity", json={"a": A, "b": B, "model": name}).json()
        np.testing.assert_allclose(found["similarity"], model.encode([A]) @ model.encode([B]).T, atol=1e-5)
    listed = WEB.get(f"{server.url}/v1/models").json()["data"]
    assert [model["id"] for model in listed] == WEB.get(f"{server.url}/health").json()["models"] == [*models]
    default = WEB.post(f"{server.url}/v1/embeddings", json={"input": A}).json()
    assert default["model"] == "ranks"
    other = WEB.post(f"{server.url}/similarity", json={"a": A, "b": B, "model": "other"})
    assert (other.status_code, other.json()["error"]["param"]) == (404, "model")
    assert "choose from 'ranks', 'plain'" in other.json()["error"]["message"]


def test_what_a_model_lacks_is_said_of_that_model(server):
    explained = WEB.post(f"{server.url}/explain", json={"a": A, "b": B, "model": "plain"})
    assert (explained.status_code, explained.json()["error"]["code"]) == (409, "no_reference_corpus")
    assert WEB.post(f"{server.url}/explain", json={"a": A, "b": B}).status_code == 200
    searched = WEB.post(f"{server.url}/search", json={"query": A})
    assert (searched.status_code, searched.json()["error"]["code"]) == (409, "no_index")
    found = WEB.post(f"{server.url}/search", json={"query": A, "model": "plain"}).json()
    assert [hit["text"] for hit in found["results"]] == [A]


def test_metrics_are_by_model(server):
    names = ("rankencoder_sentences_total", "rankencoder_tokens_total", "rankencoder_batch_sentences_count")

    def figures(model):
        return [figure(server.url, f'{name}{{model="{model}"}}') for name in names]

    ranks, (sentences, tokens, batches) = figures("ranks"), figures("plain")
    WEB.post(f"{server.url}/v1/embeddings", json={"input": [A, B], "model": "plain"})
    after = figures("plain")
    assert (after[0], after[2]) == (sentences + 2, batches + 1)
    assert after[1] > tokens
    assert figures("ranks") == ranks
    assert figure(server.url, 'rankencoder_waiting_sentences{model="plain"}') == 0


def test_names_are_told_apart(run_cli, tiny_folder, tmp_path):
    code, _, err = run_cli("serve", tiny_folder, tiny_folder, "--port", 0)
    name = tiny_folder.name
    assert (code, err) == (
        2,
        f"error: 2 models, named {name}, {name}: give each its own name with --name\n",
    )


def search(url):
    return WEB.post(f"{url}/search", json={"query": A, "k": 9})


def texts(url):
    return {hit["text"] for hit in search(url).json()["results"]}


ADD = "import sys; from rankencoder import RankIndex; RankIndex.load(sys.argv[1]).add([sys.argv[2]])"


def test_a_search_sees_what_other_processes_do_to_the_index(tiny_folder, tmp_path):
    folder = tmp_path / "index"
    RankIndex.build(str(tiny_folder), [A], folder)
    model = Encoder(tiny_folder)
    with serving(model, RankIndex.load(folder, model)) as url:
        assert texts(url) == {A}
        done = warm.run([sys.executable, "-c", ADD, str(folder), B])
        assert done.returncode == 0
        assert texts(url) == {A, B}
        RankIndex.build(str(tiny_folder), ["Another one", "And one more"], tmp_path / "new")
        shutil.rmtree(folder)
        gone = search(url)
        assert (gone.status_code, gone.json()["error"]["code"]) == (409, "no_index")
        (tmp_path / "new").rename(folder)
        assert texts(url) == {"Another one", "And one more"}


def test_an_index_that_is_made_again_with_another_model_is_refused(tiny_folder, tmp_path, callable_encoder):
    folder = tmp_path / "index"
    RankIndex.build(str(tiny_folder), [A], folder)
    model = Encoder(tiny_folder)
    with serving(model, RankIndex.load(folder, model)) as url:
        shutil.rmtree(folder)
        RankIndex.build(callable_encoder, [A], folder)
        refused = search(url)
        assert refused.status_code == 409
        assert "was made with" in refused.json()["error"]["message"]
        shutil.rmtree(folder)
        RankIndex.build(str(tiny_folder), [B], folder)
        assert texts(url) == {B}


def test_the_access_log_is_one_json_object_a_request_without_texts(tiny_folder, tmp_path):
    command = ("-m", "rankencoder", "serve", tiny_folder, "--port", 0, "--log-json")
    secret = "A very private sentence"
    with Process(*command, log=tmp_path / "log") as server:
        WEB.post(
            f"{server.url}/v1/embeddings", json={"input": [secret, A]}, headers={"X-Request-ID": "my-id.7"}
        )
        odd = WEB.get(f"{server.url}/nowhere?q=private", headers={"X-Request-ID": "two words"})
        server.terminate()
        assert server.wait() == 0
        lines = [json.loads(line) for line in server.text().splitlines()]
    asked, lost = (line for line in lines if "path" in line)
    assert {name: asked[name] for name in ("method", "path", "status", "sentences", "id", "model")} == {
        "method": "POST",
        "path": "/v1/embeddings",
        "status": 200,
        "sentences": 2,
        "id": "my-id.7",
        "model": tiny_folder.name,
    }
    assert asked["ms"] >= 0
    assert asked["client"] == "127.0.0.1"
    assert (lost["path"], lost["status"], lost["sentences"]) == ("other", 404, 0)
    assert lost["id"] == odd.headers["X-Request-ID"] != "two words"
    assert "private" not in json.dumps(lines)
