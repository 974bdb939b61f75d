"""Backends compute what torch computes, and say how nearly; exported graphs run without torch."""

import json
import logging
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from rankencoder import RankEncoder
from rankencoder.backends import backend as backends
from rankencoder.backends.portable import export_model
from rankencoder.encoders import Encoder
from rankencoder.errors import BackendWarning, InputError
from rankencoder.fused_encoder import FusedEncoder
from rankencoder.vector_files import encode_file

pytest.importorskip("openvino", reason="needs OpenVINO: pip install 'rankencoder[openvino]'")
pytest.importorskip("onnxruntime", reason="needs ONNX Runtime: pip install 'rankencoder[onnx]'")

GRAPHS = ["openvino", "openvino:int8", "onnx", "onnx:int8"]
HALF = pytest.mark.skipif(not backends.has_bfloat16(), reason="this CPU has no bfloat16")
ALL = [*GRAPHS, *(pytest.param(f"{name}:bf16", marks=HALF) for name in ("openvino", "torch"))]
ODD = ["", " \t ", "a", "long " * 500, "The cat 中文 😀", "x" * 300, "a dog sees the river"]


@pytest.fixture(scope="module", autouse=True)
def _cache(tmp_path_factory):
    """A cache of converted models for this file alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANKENCODER_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def opened(folder, name, **settings):
    with warnings.catch_warnings():  # int8 of a random model is none too faithful
        warnings.simplefilter("ignore", BackendWarning)
        return Encoder(folder, device="cpu", backend=name, **settings)


@pytest.mark.parametrize("name", ALL)
def test_similarities_are_those_of_torch(tiny_folder, sentences, name):
    texts = sentences[::6]
    exact, ours = Encoder(tiny_folder, device="cpu")(texts), opened(tiny_folder, name)(texts)
    pairs = np.triu_indices(len(texts), 1)
    correlation = spearmanr((ours @ ours.T)[pairs], (exact @ exact.T)[pairs]).statistic
    assert correlation > (0.999 if "int8" not in name else 0.9)
    if name in GRAPHS and "int8" not in name:
        np.testing.assert_allclose(ours, exact, atol=2e-5)


@pytest.mark.parametrize("name", ALL)
def test_each_sentence_has_its_vector_in_any_company(tiny_folder, name):
    encoder = opened(tiny_folder, name)
    exact = Encoder(tiny_folder, device="cpu")(ODD)
    together = encoder(ODD)
    alone = np.concatenate([encoder([text]) for text in ODD])
    least = 0.95 if "int8" in name else 0.999
    assert (together * exact).sum(dim=1).min() > least
    assert (together.numpy() * alone).sum(axis=1).min() > least


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("number", [1, 2, 7, 33])
def test_encoding_again_gives_the_same(tiny_folder, sentences, name, number):
    encoder = opened(tiny_folder, name)
    first = encoder(sentences[:number])
    assert first.shape == (number, 32)
    np.testing.assert_array_equal(encoder(sentences[:number]), first)


@pytest.mark.parametrize("name", ALL)
def test_equal_sentences_tie(tiny_folder, sentences, name):
    vectors = opened(tiny_folder, name)([*sentences[:5], *sentences[:5]])
    np.testing.assert_allclose(vectors[:5], vectors[5:], atol=1e-6)


@pytest.mark.parametrize("name", [name for name in ALL if name != "openvino:int8"])  # it clamps NaN
def test_nan_is_reported_with_its_sentence(tiny_folder, name):
    model = SentenceTransformer(str(tiny_folder), device="cpu")
    token = model.tokenizer.convert_tokens_to_ids("river")
    with torch.no_grad():
        model[0].auto_model.get_input_embeddings().weight[token] = float("nan")
    encoder = opened(model, name)
    assert encoder(["a dog", "a cat"]).isfinite().all()
    with pytest.raises(InputError, match="NaN or infinite vector for 'a river'"):
        encoder(["a dog", "a river", "a cat"])


def test_openvino_sends_no_telemetry():
    code = """
import os
os.register_at_fork(before=lambda: print("forked"))
from rankencoder.backends.model_graph import _openvino_core
_openvino_core()
from openvino.tools.ovc import telemetry_utils
print(telemetry_utils.tm.__name__)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "openvino.tools.ovc.telemetry_stub\n"


def test_prompts_are_read(tiny_folder):
    ours = opened(tiny_folder, "onnx", prompt="the cat: ")(["a dog"])
    np.testing.assert_allclose(ours, Encoder(tiny_folder, device="cpu")(["the cat: a dog"]), atol=2e-5)


def test_a_model_is_converted_and_compared_once(tiny_folder, monkeypatch):
    first = opened(tiny_folder, "openvino")
    monkeypatch.setattr(backends, "write_graph", None)
    monkeypatch.setattr(backends, "compare", None)
    assert opened(tiny_folder, "openvino").backend == first.backend


def test_a_damaged_copy_is_converted_again(tiny_folder, sentences, tmp_path, monkeypatch):
    monkeypatch.setenv("RANKENCODER_CACHE", str(tmp_path))
    exact = opened(tiny_folder, "onnx")(sentences[:5])
    graph = next(tmp_path.rglob("model.onnx"))
    data = bytearray(graph.read_bytes())
    data[len(data) // 2] ^= 255
    graph.write_bytes(data)
    np.testing.assert_array_equal(opened(tiny_folder, "onnx")(sentences[:5]), exact)


def test_auto_takes_the_first_that_is_faithful(tiny_folder, caplog, monkeypatch):
    with caplog.at_level(logging.INFO):
        chosen = Encoder(tiny_folder, device="cpu", backend="auto").backend
    assert chosen.fidelity >= 0.999
    assert chosen.name == ("openvino" if backends.has_bfloat16() else chosen.name)
    assert f"backend: {chosen}" in caplog.text
    monkeypatch.setattr(backends, "FAITHFUL", 1.1)
    assert Encoder(tiny_folder, device="cpu", backend="auto").backend == backends.Backend()


def test_auto_does_without_what_is_not_installed(tiny_folder, monkeypatch):
    monkeypatch.setattr(backends, "_PACKAGES", {"torch": "torch", "openvino": "no_such", "onnx": "no_such"})
    assert Encoder(tiny_folder, device="cpu", backend="auto").backend.name == "torch"
    with pytest.raises(InputError, match=r"openvino is not installed: run pip install"):
        Encoder(tiny_folder, device="cpu", backend="openvino")


def test_without_bfloat16_float32_is_used(tiny_folder, monkeypatch):
    monkeypatch.setattr(backends, "has_bfloat16", lambda: False)
    with pytest.warns(BackendWarning, match="no bfloat16"):
        encoder = Encoder(tiny_folder, device="cpu", backend="openvino", precision="bf16")
    assert encoder.backend.precision == "fp32"


def test_a_doubtful_backend_warns(tiny_folder, monkeypatch):
    monkeypatch.setattr(backends, "DOUBTFUL", 1.1)
    with pytest.warns(BackendWarning, match=r"onnx fp32 \(fidelity 1.0"):
        Encoder(tiny_folder, device="cpu", backend="onnx")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"backend": "tensorrt"}, "unknown backend 'tensorrt': use auto, torch, openvino, onnx"),
        ({"backend": "onnx", "precision": "fp8"}, "unknown precision 'fp8': use fp32, bf16, int8"),
        ({"backend": "onnx:bf16"}, "onnx does not compute in bf16: openvino or torch does"),
        ({"precision": "int8"}, "torch does not compute in int8: openvino or onnx does"),
    ],
)
def test_what_there_is_not_is_refused(tiny_folder, given, said):
    with pytest.raises(InputError, match=said):
        Encoder(tiny_folder, **given)


def test_callables_stay_as_they_are(callable_encoder):
    assert Encoder(callable_encoder, backend="auto").backend == backends.Backend()


def test_the_backend_is_in_keys_of_work_but_not_in_the_identity(tiny_folder, tiny_saved):
    for source, load in ((tiny_folder, opened), (tiny_saved, lambda f, b: RankEncoder.load(f, backend=b))):
        models = [load(source, name) for name in ("torch", "openvino", "onnx")]
        assert len({model.fingerprint() for model in models}) == 3
        assert len({model.identity() for model in models}) == 1


def test_fused_encoders_and_saved_models_say_what_made_them(
    tiny_folder, callable_encoder, sentences, tmp_path
):
    members = [opened(tiny_folder, "onnx"), Encoder(callable_encoder)]
    fused = FusedEncoder(members)
    assert fused.backend.name in ("onnx", "torch")
    assert fused(sentences[:3]).shape == (3, 48)
    model = RankEncoder(str(tiny_folder), sentences, backend="openvino", progress=False)
    model.save(tmp_path / "model")
    assert json.loads((tmp_path / "model/rankencoder.json").read_text())["backend"]["name"] == "openvino"
    exact = RankEncoder.load(tmp_path / "model")
    assert (exact.encode(sentences[:9]) * model.encode(sentences[:9])).sum(axis=1).min() > 0.999


def test_an_interrupted_file_is_not_continued_by_another_backend(tiny_folder, sentences, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join([*sentences * 2, ""]) + "\n")  # fails at the end, after a finished part
    target = tmp_path / "vectors.npy"
    resumed = {}
    for begun, continued in (("onnx", "openvino"), ("openvino", "openvino")):
        with pytest.raises(InputError):
            encode_file(tiny_folder, lines, target, backend=begun, overwrite=True)
        counts = encode_file(tiny_folder, lines, target, backend=continued, skip_invalid=True, overwrite=True)
        resumed[begun, continued] = counts["resumed"]
    assert resumed == {("onnx", "openvino"): 0, ("openvino", "openvino"): 2048}
    assert json.loads(target.with_name("vectors.npy.json").read_text())["backend"]["name"] == "openvino"


RUN = """
import json, sys
from pathlib import Path
sys.modules["torch"] = sys.modules["transformers"] = None  # neither can be imported
import numpy as np
from tokenizers import Tokenizer
folder, texts = Path(sys.argv[1]), json.loads(sys.argv[2])
about = json.loads((folder / "rankencoder-export.json").read_text())
rows = Tokenizer.from_file(str(folder / about["tokenizer"])).encode_batch(texts)
masks = [row.attention_mask for row in rows]
feeds = {"input_ids": np.array([row.ids for row in rows]), "attention_mask": np.array(masks)}
graph = str(folder / about["graph"])
if about["format"] == "onnx":
    import onnxruntime
    found = onnxruntime.InferenceSession(graph).run([about["output"]], feeds)[0]
else:
    import openvino
    settings = {"INFERENCE_PRECISION_HINT": "f32"}
    found = openvino.Core().compile_model(graph, "CPU", settings)(feeds)[about["output"]]
print(json.dumps(found.tolist()))
"""


@pytest.mark.parametrize("format", ["onnx", "openvino"])
@pytest.mark.parametrize("kind", ["encoder", "linear"])
def test_an_export_runs_without_torch(tiny_folder, tiny_model, tmp_path, run_cli, format, kind):
    model, exact = str(tiny_folder), Encoder(tiny_folder, device="cpu")(ODD).numpy()
    if kind == "linear":
        linear = tiny_model.with_form("linear")
        linear.save(tmp_path / "linear")
        model, exact = str(tmp_path / "linear"), linear.to_sentence_transformer().encode(ODD)
    code, out, _ = run_cli("export", model, "--format", format, "-o", tmp_path / "out", "--json")
    assert code == 0
    assert json.loads(out)["fidelity"]["spearman"] > 0.999
    script = textwrap.dedent(RUN)
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "out"), json.dumps(ODD)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = np.array(json.loads(done.stdout))
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    if kind == "encoder":
        np.testing.assert_allclose(found, exact, atol=2e-5)
    else:
        np.testing.assert_allclose(found @ found.T, exact @ exact.T, atol=1e-4)


CLOSE = """
import gc, os, signal, sys
from rankencoder.encoders import Encoder
opened = [Encoder(sys.argv[1], device="cpu", backend=f"openvino:{sys.argv[2]}") for _ in range(2)]
while opened:
    del opened[0]
    gc.collect()
signal.signal(signal.SIGTERM, lambda *_: print("handled"))
os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_signals_are_handled_after_models_were_closed(tiny_folder, precision):
    """OpenVINO left the stack of signal handlers unmapped."""
    command = [sys.executable, "-X", "faulthandler", "-c", CLOSE, str(tiny_folder), precision]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["handled"]), done.stderr


def test_what_no_graph_can_do_is_refused(tiny_model, callable_encoder, tiny_folder, tmp_path):
    for model, said in (
        (tiny_model, "the exact form ranks a reference corpus"),
        (Encoder(callable_encoder), "is not a transformer"),
        (FusedEncoder([Encoder(tiny_folder), Encoder(callable_encoder)]), "several tokenizers"),
    ):
        with pytest.raises(InputError, match=said):
            export_model(model, tmp_path / "out", "onnx")
        assert not (tmp_path / "out").exists()


def test_commands_take_a_backend(tiny_saved, run_cli):
    pair = ("a cat sees the dog", "a dog sees the cat")
    code, out, err = run_cli("similarity", tiny_saved, *pair, "--backend", "auto", "--json")
    assert code == 0
    assert "backend: " in err
    _, exact, _ = run_cli("similarity", tiny_saved, *pair, "--json")
    assert json.loads(out)[0]["similarity"] == pytest.approx(json.loads(exact)[0]["similarity"], abs=0.01)
    code, _, err = run_cli("similarity", tiny_saved, *pair, "--backend", "onnx", "--precision", "bf16")
    assert (code, err) == (2, "error: onnx does not compute in bf16: openvino or torch does\n")
