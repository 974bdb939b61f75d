import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer
from sentence_transformers.util import cos_sim, pairwise_cos_sim

from rankencoder import RankEncoder, Reference
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.model import open_model, open_rankencoder

A = ["The cat sees the dog", "A teacher paints the house", "Engines"]
B = ["The dog sees the cat", "The river moves"]


@pytest.fixture(scope="module", params=["exact", "compact", "linear"])
def model(request, tiny_model):
    return tiny_model if request.param == "exact" else tiny_model.with_form(request.param)


def test_plain_cosine_of_encode_is_equation_7(tiny_model, tiny_folder):
    """Recomputed from outside: sentence-transformers' vectors, scipy's Spearman."""
    base = SentenceTransformer(str(tiny_folder), device="cpu")
    a, b = base.encode(A), base.encode(B)
    reference = base.encode(tiny_model.reference.sentences)
    to_a, to_b = cos_sim(a, reference).double().numpy(), cos_sim(b, reference).double().numpy()
    ranks = np.array([[spearmanr(x, y).statistic for y in to_b] for x in to_a])
    expected = 0.3 * ranks + 0.7 * cos_sim(a, b).numpy()
    assert np.allclose(cos_sim(tiny_model.encode(A), tiny_model.encode(B)).numpy(), expected, atol=1e-6)


def test_every_form_blends_its_own_rank_similarity_with_the_cosine(model):
    vectors = model.encode(A + B)
    assert vectors.dtype == np.float32
    assert vectors.shape == (5, model.dimension)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    explanation = model.explain(A[0], B[0])
    assert explanation.similarity == pytest.approx(
        0.3 * explanation.rank_similarity + 0.7 * explanation.cosine, abs=1e-6
    )
    assert explanation.similarity == pytest.approx(float(vectors[0] @ vectors[3]), abs=1e-5)


def test_similarity_of_sentences_and_of_vectors(model):
    expected = cos_sim(model.encode(A), model.encode(B)).numpy()
    assert np.allclose(model.similarity(A, B), expected, atol=1e-6)
    assert np.allclose(model.similarity(model.encode(A), B), expected, atol=1e-6)
    assert model.similarity(A[0], B).shape == (1, 2)
    pairwise = pairwise_cos_sim(model.encode(A[:2]), model.encode(B)).numpy()
    assert np.allclose(model.similarity_pairwise(A[:2], B), pairwise, atol=1e-6)
    assert model.encode(A[0]).shape == (model.dimension,)
    assert model.encode([]).shape == (0, model.dimension)


def test_rank_weight_changes_without_encoding_again(tiny_model, monkeypatch):
    vectors = tiny_model.encode(A)
    other = tiny_model.with_form("exact")
    other.rank_weight = 0.8
    expected = other.encode(A)
    monkeypatch.setattr(other.encoder, "model", None)
    assert np.allclose(tiny_model.reweight(vectors, 0.8), expected, atol=1e-6)
    assert tiny_model.reweight(vectors[0], 0.8).shape == vectors[0].shape
    with pytest.raises(InputError, match="between 0"):
        tiny_model.rank_weight = 2
    assert tiny_model.rank_weight == 0.3


def test_rank_vectors_are_exact_in_every_form(model, tiny_model):
    ranks = model.rank_vectors(A)
    assert ranks.shape == (3, 1200)
    assert np.array_equal(ranks, tiny_model.rank_vectors(A))
    expected = spearmanr(ranks[0], ranks[1]).statistic
    assert ranks[0] @ ranks[1] == pytest.approx(expected, abs=1e-6)


def test_neighbors_and_explain(tiny_model, sentences):
    found = tiny_model.neighbors(sentences[5], k=5)
    assert [n.rank for n in found] == [1, 2, 3, 4, 5]
    assert found[0].sentence == sentences[5]
    assert found[0].similarity == pytest.approx(1, abs=1e-5)
    assert [n.similarity for n in found] == sorted((n.similarity for n in found), reverse=True)
    assert len(tiny_model.neighbors("A cat", k=10**6)) == 1200
    explanation = tiny_model.explain(A[0], B[0], k=50)
    near_a = {n.sentence: n.rank for n in tiny_model.neighbors(A[0], 50)}
    near_b = {n.sentence: n.rank for n in tiny_model.neighbors(B[0], 50)}
    assert {s.sentence for s in explanation.shared} == set(near_a) & set(near_b)
    assert all((near_a[s.sentence], near_b[s.sentence]) == (s.rank_a, s.rank_b) for s in explanation.shared)
    assert json.loads(json.dumps(explanation.to_dict()))["cosine"] == explanation.cosine
    same = tiny_model.explain(A[0], A[0], k=7)
    assert (same.similarity, len(same.shared)) == (pytest.approx(1, abs=1e-5), 7)


def test_save_and_load_give_the_same_vectors(model, tmp_path):
    model.save(tmp_path / "m")
    loaded = RankEncoder.load(tmp_path / "m")
    assert np.array_equal(loaded.encode(A), model.encode(A))
    assert loaded.rank_weight == 0.3
    assert loaded.fidelity == model.fidelity
    assert repr(loaded) == repr(model)
    suffixes = {p.suffix for p in (tmp_path / "m").rglob("*") if p.is_file()}
    assert suffixes <= {".json", ".safetensors", ".md", ".txt"}


def test_fidelity_is_stored(tiny_model):
    assert tiny_model.fidelity.spearman == pytest.approx(1, abs=1e-6)
    compact = tiny_model.with_form("compact", dim=64).fidelity
    assert 0.99 < compact.spearman < 1
    assert compact.pairs == 300 * 299 // 2


def test_a_constructor_prints_nothing(callable_encoder, sentences, capsys, caplog):
    with caplog.at_level("DEBUG", "rankencoder.model"):
        RankEncoder(callable_encoder, sentences)
    assert capsys.readouterr() == ("", "")
    assert "fidelity of the compact form to exact rank similarities: Spearman" in caplog.text


@pytest.mark.parametrize(("rank_weight", "dimension"), [(0, 32), (1, 64), (0.5, 96)])
def test_no_dimension_is_only_padding(tiny_model, tmp_path, rank_weight, dimension):
    model = tiny_model.with_form("compact", dim=64)
    model.rank_weight = rank_weight
    vectors = model.encode(A)
    assert vectors.shape == (3, dimension)
    assert vectors.any(axis=0).all()
    assert np.allclose(vectors @ vectors.T, model.similarity(A, A))
    assert model.dimension == model.to_sentence_transformer().get_embedding_dimension() == dimension
    model.save(tmp_path / "m")
    assert json.loads((tmp_path / "m" / "rankencoder.json").read_text())["dimension"] == dimension


def test_callables_can_be_saved_but_must_be_given_again(callable_encoder, sentences, tmp_path):
    model = RankEncoder(callable_encoder, sentences, progress=False)
    model.save(tmp_path / "m")
    with pytest.raises(InputError, match="built with the callable 'letters'"):
        RankEncoder.load(tmp_path / "m")
    loaded = RankEncoder.load(tmp_path / "m", encoder=callable_encoder)
    assert np.array_equal(loaded.encode(A), model.encode(A))
    with pytest.raises(InputError, match="is a different"):
        RankEncoder.load(tmp_path / "m", encoder=lambda t: callable_encoder(t)[:, ::-1])
    with pytest.raises(InputError, match="callable, which a SentenceTransformer cannot hold"):
        model.to_sentence_transformer()


def test_a_reference_of_another_encoder(tiny_folder, callable_encoder, sentences):
    reference = Reference.build(callable_encoder, sentences)
    with pytest.raises(InputError, match="the reference corpus was encoded by 'letters'"):
        RankEncoder(str(tiny_folder), reference)


def test_an_encoder_that_changes_its_dimension(callable_encoder, sentences):
    model = RankEncoder(callable_encoder, sentences, progress=False)
    model.encoder.function = lambda texts: callable_encoder(texts)[:, :5]
    with pytest.raises(InputError, match="returned 5 dimensions, but 16 before"):
        model.encode("a cat")


def test_overwriting_is_asked_for(tiny_model, tmp_path):
    tiny_model.save(tmp_path / "m")
    with pytest.raises(InputError, match="already exists"):
        tiny_model.save(tmp_path / "m")
    other = tiny_model.with_form("linear")
    other.save(tmp_path / "m", overwrite=True)
    assert RankEncoder.load(tmp_path / "m").form.name == "linear"
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_failing_save_leaves_the_old_folder(tiny_model, tmp_path, monkeypatch):
    tiny_model.save(tmp_path / "m")
    before = sorted(p.stat().st_mtime_ns for p in (tmp_path / "m").rglob("*"))

    def fails(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rankencoder.persistence.write_tensors", fails)
    with pytest.raises(OSError, match="No space left"):
        tiny_model.save(tmp_path / "m", overwrite=True)
    assert sorted(p.stat().st_mtime_ns for p in (tmp_path / "m").rglob("*")) == before
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def set_config(folder, **changes):
    config = json.loads((folder / "rankencoder.json").read_text())
    (folder / "rankencoder.json").write_text(json.dumps({**config, **changes}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "rankencoder.json").unlink(), "no rankencoder.json"),
        (lambda f: (f / "form.safetensors").unlink(), "form.safetensors is missing"),
        (lambda f: (f / "form.safetensors").write_bytes(b""), "form.safetensors is damaged"),
        (lambda f: shutil.rmtree(f / "encoder"), "encoder.* is missing"),
        (lambda f: shutil.rmtree(f / "reference"), "reference.* is missing"),
        (lambda f: set_config(f, format=7), "format 7"),
        (lambda f: set_config(f, rank_weight=0.2), "rankencoder.json is damaged"),
        (lambda f: f.rename(f.with_name(".m.previous")), "rename .*previous"),
        (shutil.rmtree, "no such folder"),
    ],
)
def test_damaged_folders(tiny_saved, tmp_path, damage, message):
    folder = tmp_path / "m"
    shutil.copytree(tiny_saved, folder)
    damage(folder)
    with pytest.raises(InputError, match=message):
        RankEncoder.load(folder)


def test_bad_vectors_and_sentences(tiny_model):
    with pytest.raises(InputError, match="sentence 1 is empty"):
        tiny_model.encode(["fine", "  "])
    with pytest.raises(InputError, match="expected vectors of 1232 dimensions"):
        tiny_model.similarity(np.zeros((1, 3), dtype=np.float32), "a")
    with pytest.raises(InputError, match="2 sentences cannot be paired with 1"):
        tiny_model.similarity_pairwise(["a", "b"], ["a"])
    with pytest.raises(InputError, match="k must be at least 1"):
        tiny_model.neighbors("a", k=0)


@pytest.mark.parametrize(
    "change",
    [
        {"form": {}},
        {"form": {"name": "exact", "settings": {}}},
        {"rank_weight": "much"},
        {"fidelity": {"a": 1}},
    ],
)
def test_a_damaged_folder_without_a_manifest_is_told(tiny_saved, tmp_path, change):
    folder = shutil.copytree(tiny_saved, tmp_path / "m")
    (folder / "manifest.json").unlink()
    set_config(folder, **change)
    with pytest.raises(InputError, match="damaged .not a complete RankEncoder"):
        RankEncoder.load(folder)


@pytest.mark.parametrize(
    "name", ["encoder/model.safetensors", "form.safetensors", "reference/reference.json"]
)
def test_a_flipped_bit_is_noticed(tiny_saved, tmp_path, name):
    folder = shutil.copytree(tiny_saved, tmp_path / "m")
    data = bytearray((folder / name).read_bytes())
    place = data.rindex(b"a") if name.endswith("json") else len(data) - 400
    data[place] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(InputError, match=f"{name} is damaged"):
        RankEncoder.load(folder)
    (folder / "manifest.json").unlink()  # an earlier version wrote none, but sums of some files
    set_config(folder, sha256={name: "0" * 64})
    with pytest.raises(InputError, match=f"{name} is damaged"):
        RankEncoder.load(folder)


def test_whatever_makes_vectors_is_opened(tiny_folder, tiny_saved, tiny_model, callable_encoder, tmp_path):
    for source in (tiny_model, tiny_model.encoder):
        assert open_model(source) is source
    saved = open_model(str(tiny_saved))
    assert isinstance(saved, RankEncoder)
    assert saved.name == str(tiny_saved)
    for source in (tiny_folder, callable_encoder, SimpleNamespace(encode=callable_encoder)):
        encoder = open_model(source)
        assert isinstance(encoder, Encoder)
        for model in (encoder, saved):
            assert model.encode(["A cat"]).shape == (1, model.dimension)
            assert model.fingerprint() == model.fingerprint()
            assert str(model.device)
        with pytest.raises(InputError, match="is a plain encoder: build a RankEncoder from it first"):
            open_rankencoder(source)
    assert open_rankencoder(tiny_saved).fingerprint() == saved.fingerprint() != tiny_model.fingerprint()
    with pytest.raises(InputError, match="built with the prompt ''"):
        open_model(tiny_saved, prompt="query: ")
    with pytest.raises(InputError, match="cannot load encoder"):
        open_rankencoder("someone/else")


def test_the_folder_of_a_training_is_opened(tiny_folder, tiny_saved, tmp_path):
    (tmp_path / "rankencoder-run.json").write_text("{}")
    with pytest.raises(InputError, match="has not finished an encoder yet: resume it first"):
        open_model(tmp_path)
    shutil.copytree(tiny_folder, tmp_path / "base")
    with pytest.raises(InputError, match="resume it first"):  # E1 is not what the run is to become
        open_model(tmp_path)
    (tmp_path / "rankencoder-run.json").write_text('{"finished": true}')
    assert isinstance(open_model(tmp_path), Encoder)
    with pytest.raises(InputError, match="plain encoder"):
        open_rankencoder(tmp_path)
    shutil.copytree(tiny_saved, tmp_path / "rankencoder")
    assert isinstance(open_model(tmp_path), RankEncoder)
    assert isinstance(open_rankencoder(str(tmp_path)), RankEncoder)


def test_the_prompt_is_saved(tiny_folder, sentences, tmp_path):
    model = RankEncoder(tiny_folder, sentences, prompt="query: ", progress=False)
    plain = RankEncoder(tiny_folder, sentences, progress=False)
    assert not np.allclose(model.encode("A cat"), plain.encode("A cat"), atol=1e-3)
    model.save(tmp_path / "model")
    loaded = RankEncoder.load(tmp_path / "model")
    assert loaded.encoder.prompt == "query: "
    assert np.allclose(model.encode("A cat"), loaded.encode("A cat"), atol=1e-6)
