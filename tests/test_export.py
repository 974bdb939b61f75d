import sys

import numpy as np
import pytest
import warm
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

from rankencoder import RankEncoder
from rankencoder.errors import InputError

TEXTS = [
    "The cat sees the dog",
    "A teacher paints the house",
    "The river moves",
    "Engines, gardens and songs",
]


def cosines(vectors):
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors @ vectors.T


@pytest.mark.parametrize("weight", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("power", [-0.5, -0.25, 0.5])
def test_linear_form_loads_without_this_package(tiny_model, tmp_path, sentences, power, weight):
    model = tiny_model.with_form("linear", power=power)
    model.rank_weight = weight
    exported = model.to_sentence_transformer()
    exported.save_pretrained(str(tmp_path / "m"))
    assert "rankencoder." not in (tmp_path / "m" / "modules.json").read_text()
    loaded = SentenceTransformer(str(tmp_path / "m"), device="cpu")
    ours, theirs = model.similarity(sentences[:60], sentences[:60]), cosines(loaded.encode(sentences[:60]))
    if weight in (0.0, 1.0):
        assert np.allclose(theirs, ours, atol=1e-4)
    above = np.triu_indices(60, k=1)
    assert spearmanr(theirs[above], ours[above]).statistic > 0.98


def test_linear_export_needs_no_custom_code_in_another_process(tiny_model, tmp_path):
    model = tiny_model.with_form("linear")
    model.rank_weight = 1.0
    model.to_sentence_transformer().save_pretrained(str(tmp_path / "m"))
    code = f"""
import sys
sys.modules["rankencoder"] = None
import numpy
from sentence_transformers import SentenceTransformer
vectors = SentenceTransformer({str(tmp_path / "m")!r}, device="cpu").encode({TEXTS!r})
numpy.save({str(tmp_path / "v.npy")!r}, vectors)
"""
    warm.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert np.allclose(cosines(np.load(tmp_path / "v.npy")), model.similarity(TEXTS, TEXTS), atol=1e-4)


def assert_same(found, expected):
    """Equal but for rounding, which can swap two neighboring ranks on some machines."""
    assert np.allclose(found, expected, atol=2e-4)
    assert np.allclose(found @ found.T, expected @ expected.T, atol=1e-6)


@pytest.mark.parametrize("form", ["compact", "exact"])
def test_other_forms_are_a_module_of_ours(tiny_model, tmp_path, form):
    model = tiny_model.with_form(form)
    exported = model.to_sentence_transformer()
    assert_same(exported.encode(TEXTS), model.encode(TEXTS))
    assert exported.get_embedding_dimension() == model.dimension
    exported.save_pretrained(str(tmp_path / "m"))
    with pytest.raises(ValueError, match="trust_remote_code"):
        SentenceTransformer(str(tmp_path / "m"), device="cpu")
    loaded = SentenceTransformer(str(tmp_path / "m"), device="cpu", trust_remote_code=True)
    assert_same(loaded.encode(TEXTS), model.encode(TEXTS))
    assert not list((tmp_path / "m").rglob("*.bin"))


def test_the_export_is_a_copy_and_its_card_says_what_it_is(tiny_model, tmp_path):
    before = tiny_model.encode(TEXTS)
    exported = tiny_model.with_form("linear").to_sentence_transformer()
    assert len(exported) == len(tiny_model.encoder.model) + 3
    exported[-2].linear.weight.data.zero_()
    assert np.array_equal(tiny_model.encode(TEXTS), before)
    exported.save_pretrained(str(tmp_path / "m"))
    card = (tmp_path / "m" / "README.md").read_text()
    assert "RankEncoder on" in card
    assert "trust_remote_code" not in card
    assert str(tmp_path) not in card
    assert "Spearman" in card


@pytest.mark.parametrize("form", ["compact", "linear"])
def test_half_precision_encoders(tiny_folder, sentences, tmp_path, form):
    base = SentenceTransformer(str(tiny_folder), device="cpu", model_kwargs={"dtype": "bfloat16"})
    model = RankEncoder(base, sentences, form=form, rank_weight=1.0, progress=False)
    model.to_sentence_transformer().save_pretrained(str(tmp_path / "m"))
    loaded = SentenceTransformer(str(tmp_path / "m"), device="cpu", trust_remote_code=form == "compact")
    theirs, ours = cosines(loaded.encode(sentences[:40])), model.similarity(sentences[:40], sentences[:40])
    assert np.abs(theirs - ours).max() < 0.05


def test_encoders_that_cut_their_vectors(tiny_folder, sentences):
    base = SentenceTransformer(str(tiny_folder), device="cpu", truncate_dim=8)
    model = RankEncoder(base, sentences, form="linear", progress=False)
    assert model.dimension == 16
    with pytest.raises(InputError, match="cuts its vectors to 8 dimensions"):
        model.to_sentence_transformer()


@pytest.mark.parametrize("form", ["compact", "linear"])
def test_mteb_runs_on_the_export(tiny_model, form):
    mteb = pytest.importorskip("mteb")
    from mteb.mocks.mock_tasks import MockSTSTask

    model = tiny_model.with_form(form)
    result = mteb.evaluate(
        model.to_sentence_transformer(), MockSTSTask(), cache=None, show_progress_bar=False
    )
    scores = result.task_results[0].scores["test"][0]
    task = MockSTSTask()
    task.load_data()
    rows = task.dataset["test"]
    ours = model.similarity_pairwise(list(rows["sentence1"]), list(rows["sentence2"]))
    assert scores["cosine_spearman"] == pytest.approx(spearmanr(ours, rows["score"]).statistic)


def test_the_prompt_is_exported(tiny_folder, sentences, tmp_path):
    settings = {"form": "linear", "rank_weight": 1, "prompt": "query: "}
    model = RankEncoder(tiny_folder, sentences, **settings, progress=False)
    model.to_sentence_transformer().save_pretrained(str(tmp_path / "exported"))
    exported = SentenceTransformer(str(tmp_path / "exported"), device="cpu")
    vectors = exported.encode(["The cat sees the dog.", "A river"])
    ours = model.encode(["The cat sees the dog.", "A river"])
    assert vectors.shape == ours.shape == (2, 32)
    assert np.allclose(vectors @ vectors.T, ours @ ours.T, atol=1e-5)
