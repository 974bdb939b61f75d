"""What the version before issue 19 saved still loads, with the same vectors (saved-before-19/make.py)."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import rankencoder
from rankencoder import RankEncoder, Reference
from rankencoder.errors import InputError

SAVED = Path(__file__).parent / "data" / "saved-before-19"
EXPECTED = json.loads((SAVED / "expected.json").read_text(encoding="utf-8"))
TEXTS = EXPECTED["texts"]
NOUNS, VERBS = ("cat", "dog", "river", "house", "tree"), ("sees", "moves", "likes", "is")
CORPUS = [f"the {a} {v} the {b}" for a in NOUNS for v in VERBS for b in NOUNS]

pytestmark = pytest.mark.filterwarnings("ignore::rankencoder.errors.ReferenceWarning")


@pytest.fixture
def saved(tmp_path):
    """A copy of the data: loading may not need to write, but a resumed training does."""
    folder = tmp_path / "saved"
    shutil.copytree(SAVED, folder)
    for path in (*folder.rglob("rankencoder-run.json"), *folder.rglob("train.yaml")):
        path.write_text(path.read_text().replace("/tmp/old/out", str(folder)))
    return folder


def vectors(name):
    with np.load(SAVED / "vectors.npz") as stored:
        return stored[name]


@pytest.mark.parametrize("form", ["exact", "compact", "linear"])
def test_a_rankencoder(form):
    model = RankEncoder.load(SAVED / form, device="cpu")
    assert (model.form.name, model.rank_weight, len(model.reference)) == (form, 0.3, 100)
    assert np.allclose(model.encode(TEXTS), vectors(form), atol=1e-5)


def test_a_reference():
    reference = Reference.load(SAVED / "reference")
    assert len(reference.sentences) == 100
    assert np.allclose(reference.vectors, vectors("reference"), atol=1e-6)


def test_an_exported_sentence_transformer_with_a_module_of_ours():
    from sentence_transformers import SentenceTransformer

    assert "rankencoder.modules" in (SAVED / "exported" / "modules.json").read_text()
    model = SentenceTransformer(str(SAVED / "exported"), device="cpu", trust_remote_code=True)
    assert np.allclose(model.encode(TEXTS), vectors("exported"), atol=1e-5)


def test_a_finished_training(saved):
    model = RankEncoder.load(SAVED / "run" / "rankencoder", device="cpu")
    assert np.allclose(model.encode(TEXTS), vectors("run-rankencoder"), atol=1e-5)
    (saved / "pairs.tsv").write_text("5\tthe cat\tthe dog\n1\ta river\tis not\n0\ta dog\tis here\n")
    scores = rankencoder.evaluate(saved / "run", dev=saved / "pairs.tsv", tasks=["sts"], cache=False).scores()
    assert any("E1" in name for name in scores)
    assert any("E2" in name for name in scores)


def test_an_interrupted_training_is_clearly_refused(saved, monkeypatch):
    """Its checkpoints have another manifest; the error says so before anything is overwritten."""
    monkeypatch.chdir(saved)
    settings = {"method": "simcse", "batch_size": 8, "max_steps": 2, "reference_size": 100}
    settings |= {"logging_steps": 1, "learning_rate": 1e-3, "save_steps": 1}
    with pytest.raises(InputError, match="earlier version"):
        rankencoder.train(CORPUS, "interrupted", backbone="bert", progress=False, resume=True, **settings)
    assert (saved / "interrupted/work/stage-1/checkpoint-1/model.safetensors").exists()


def test_an_index(saved):
    pytest.importorskip("lancedb", reason="needs LanceDB: pip install 'rankencoder[search]'")
    from rankencoder import RankIndex

    index = RankIndex.load(saved / "index", RankEncoder.load(SAVED / "compact", device="cpu"))
    for text, found in zip(TEXTS, EXPECTED["found"], strict=True):
        hits = index.search(text, k=3)
        assert [hit.text for hit in hits] == [expected for expected, _ in found]
        assert np.allclose([hit.score for hit in hits], [score for _, score in found], atol=1e-5)


def test_an_evaluation(run_cli, tmp_path):
    code, _, err = run_cli("report", SAVED / "evaluation", "-o", tmp_path / "report.md")
    assert code == 0, err
    report = (tmp_path / "report.md").read_text(encoding="utf-8")
    for scores in EXPECTED["scores"].values():
        assert f"{scores['pairs']:.2f}" in report
