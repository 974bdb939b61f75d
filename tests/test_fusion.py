"""Several encoders as one: formulas, RankEncoder, folders, export, commands."""

import json
import shutil
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr, zscore
from scored_pairs import make_pairs, write_pairs
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense

from rankencoder import RankEncoder, Reference, evaluate, tune
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError, ReferenceWarning
from rankencoder.fused_encoder import FusedEncoder, fuse_vectors, random_pairs

PROMPT = "query: "
TEXTS = [
    "The cat sees the dog",
    "A teacher paints the house",
    "The river moves",
    "Engines and songs",
    "2 + 2",
]


@pytest.fixture(scope="module")
def second_folder(tiny_folder, tmp_path_factory):
    """Another encoder, of 24 dimensions, whose cosines are much closer together."""
    model = SentenceTransformer(str(tiny_folder), device="cpu")
    torch.manual_seed(7)
    for weight in model.parameters():
        weight.data += 0.2 * torch.randn_like(weight)
    model.append(Dense(32, 24, activation_function=None, init_bias=torch.ones(24)))
    folder = tmp_path_factory.mktemp("second") / "model"
    model.save_pretrained(str(folder))
    return folder


@pytest.fixture(scope="module")
def fused(tiny_folder, second_folder, sentences):
    return RankEncoder([str(tiny_folder), f"{second_folder}?prompt={PROMPT}"], sentences, progress=False)


@pytest.fixture(scope="module")
def saved(fused, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fused") / "model"
    fused.save(folder)
    return folder


@pytest.fixture(scope="module")
def member_vectors(tiny_folder, second_folder):
    """What sentence-transformers makes of sentences by each member, at unit length, in float64."""
    models = [SentenceTransformer(str(folder), device="cpu") for folder in (tiny_folder, second_folder)]

    def encode(texts):
        options = {"normalize_embeddings": True, "show_progress_bar": False}
        found = [models[0].encode(texts, **options), models[1].encode(texts, prompt=PROMPT, **options)]
        return [rows.astype(np.float64) for rows in found]

    return encode


def test_its_cosine_is_the_weighted_sum_of_the_members_cosines(fused, member_vectors, sentences):
    vectors = member_vectors(fused.reference.sentences)
    first, second = random_pairs(len(sentences))
    spreads = [np.std((rows[first] * rows[second]).sum(axis=1)) for rows in vectors]
    weights = (1 / np.array(spreads)) / (1 / np.array(spreads)).sum()
    assert fused.encoder.weights == pytest.approx(weights, rel=1e-4)
    assert not 0.25 < fused.encoder.weights[0] < 0.75  # the test is about something
    expected = sum(w * (rows @ rows.T) for w, rows in zip(fused.encoder.weights, vectors, strict=True))
    assert np.abs(fused.reference.vectors @ fused.reference.vectors.T - expected).max() < 1e-6
    texts = member_vectors(TEXTS)
    expected = sum(w * (rows @ rows.T) for w, rows in zip(fused.encoder.weights, texts, strict=True))
    assert np.abs(fused.similarity(TEXTS, TEXTS) - expected).max() < 1e-6


def test_it_orders_pairs_as_the_mean_of_standardized_cosines(fused, member_vectors, sentences):
    first, second = random_pairs(len(sentences))
    cosines = [(rows[first] * rows[second]).sum(axis=1) for rows in member_vectors(fused.reference.sentences)]
    own = fused.reference.vectors.astype(np.float64)
    mean = np.mean([zscore(row) for row in cosines], axis=0)
    assert spearmanr((own[first] * own[second]).sum(axis=1), mean).statistic > 1 - 1e-6


def test_vectors_are_unit_and_as_long_as_all_members_together(fused):
    vectors = fused.encode(TEXTS)
    assert vectors.shape == (5, 32 + 24)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    assert fused.rank_weight == 0
    assert fused.encode([]).shape == (0, 56)


def test_ranks_are_blended_if_asked(tiny_folder, second_folder, sentences):
    members = [Encoder(tiny_folder, prompt=PROMPT), Encoder(second_folder)]
    model = RankEncoder(members, sentences, form="exact", rank_weight=0.3, progress=False)
    assert model.dimension == 1200 + 56
    reference = model.reference.vectors
    a, b = model.encoder.encode(TEXTS[:2])
    expected = 0.3 * spearmanr(reference @ a, reference @ b).statistic + 0.7 * a @ b
    assert model.similarity(*TEXTS[:2])[0, 0] == pytest.approx(expected, abs=1e-5)


def test_a_small_corpus_is_warned_of_only_if_ranks_are_blended(tiny_folder, second_folder, sentences):
    members = [str(tiny_folder), str(second_folder)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = RankEncoder(members, sentences[:300], progress=False)
    with pytest.warns(ReferenceWarning, match="300 sentences is small"):
        RankEncoder(members, model.reference, rank_weight=0.1, progress=False)


@pytest.mark.parametrize("weights", [[0, 1], [-1, 2], [float("nan"), 1], [float("inf"), 1], [1], [1, 1, 1]])
def test_weights_are_positive_numbers_one_for_each(weights, fused):
    with pytest.raises(InputError, match="`weights` must be 2 positive numbers, one for each encoder"):
        FusedEncoder(fused.encoder.members, weights)


def test_weights_are_scaled_to_sum_to_1(fused):
    nine, one = FusedEncoder(fused.encoder.members, [9, 1]), FusedEncoder(fused.encoder.members, [0.9, 0.1])
    assert nine.weights == pytest.approx([0.9, 0.1])
    assert np.allclose(nine.raw(TEXTS), one.raw(TEXTS))
    assert np.linalg.norm(nine.raw(TEXTS), axis=1) == pytest.approx(1)


def test_a_rankencoder_is_no_member(tiny_folder, saved, fused, sentences):
    for member in (fused, saved, str(saved)):
        with pytest.raises(InputError, match="is a RankEncoder, which cannot be fused: pass its encoder"):
            RankEncoder([str(tiny_folder), member], sentences, progress=False)


def test_one_encoder_stays_as_it_is(tiny_folder, sentences):
    model = RankEncoder(str(tiny_folder), sentences, progress=False)
    assert model.rank_weight == 0.1
    assert type(model.encoder) is Encoder


def test_a_reference_of_any_weights_serves(fused, tiny_folder, second_folder, sentences):
    members = [str(tiny_folder), f"{second_folder}?prompt={PROMPT}"]
    built = Reference.build(members, sentences)  # at equal weights
    for reference in (built, fused.reference):
        again = RankEncoder(members, reference, progress=False)
        assert np.allclose(again.encode(TEXTS), fused.encode(TEXTS), atol=1e-6)
        assert again.fingerprint() == fused.fingerprint()
    with pytest.raises(InputError, match=r"query: ' is a different"):
        RankEncoder(members[::-1], built, progress=False)
    own = RankEncoder(FusedEncoder(fused.encoder.members, [0.9, 0.1]), built, progress=False)
    assert own.encoder.weights == [0.9, 0.1]
    assert np.linalg.norm(own.reference.vectors[:, :32], axis=1) == pytest.approx(0.9**0.5)


def test_interrupted_work_goes_on(sentences, tmp_path):
    seen = []

    def letters(texts):
        return np.array([[1 + text.count(letter) for letter in "aeinot01"] for text in texts])

    def cubes(texts):
        return letters(texts) ** 3

    def counting(texts):
        seen.extend(texts)
        return letters(texts)

    def dying(texts):
        if len(seen) > 2200:  # in the second part
            raise KeyboardInterrupt
        return counting(texts)

    corpus = [f"{text} {n}" for n in range(2) for text in sentences]
    target = tmp_path / "target"
    with pytest.raises(KeyboardInterrupt):
        Reference.build([cubes, dying], corpus, resume_beside=target)
    seen.clear()
    found = Reference.build([cubes, counting], corpus, resume_beside=target)
    encoded = [text for text in seen if text in set(corpus)]
    assert len(encoded) == len(set(encoded)) == 2400 - 2048
    whole = Reference.build([cubes, letters], corpus)
    assert np.allclose(found.vectors, whole.vectors, atol=1e-6)


def test_it_is_the_same_after_loading(fused, saved, tiny_folder, second_folder):
    loaded = RankEncoder.load(saved)
    assert np.array_equal(loaded.encode(TEXTS), fused.encode(TEXTS))
    assert loaded.fingerprint() == fused.fingerprint()
    assert loaded.encoder.name == fused.encoder.name
    config = json.loads((saved / "rankencoder.json").read_text())
    assert [one["prompt"] for one in config["members"]] == ["", PROMPT]
    assert "encoder/1/modules.json" in json.loads((saved / "manifest.json").read_text())["files"]
    unweighted = FusedEncoder(fused.encoder.members)  # the folder's weights count
    for members in (unweighted, [None, second_folder], [tiny_folder, None]):
        assert np.allclose(RankEncoder.load(saved, members).encode(TEXTS), fused.encode(TEXTS), atol=1e-6)


def test_a_callable_is_given_again(tiny_folder, callable_encoder, sentences, tmp_path):
    model = RankEncoder([str(tiny_folder), callable_encoder], sentences, progress=False)
    model.save(tmp_path / "m")
    with pytest.raises(InputError, match=r"the callable 'letters', which is not on disk"):
        RankEncoder.load(tmp_path / "m")
    with pytest.raises(InputError, match=r"fuses 2 encoders: pass a list, with None"):
        RankEncoder.load(tmp_path / "m", callable_encoder)
    loaded = RankEncoder.load(tmp_path / "m", [None, callable_encoder])
    assert np.allclose(loaded.encode(TEXTS), model.encode(TEXTS), atol=1e-6)
    with pytest.raises(InputError, match="'letters' is a callable, which a SentenceTransformer cannot hold"):
        model.to_sentence_transformer()


@pytest.mark.parametrize(("form", "weight"), [("compact", 0.0), ("compact", 0.3), ("linear", 1.0)])
def test_the_export_gives_the_same_vectors(fused, tmp_path, form, weight):
    model = fused.with_form(form)
    model.rank_weight = weight
    exported = model.to_sentence_transformer()
    exported.save_pretrained(str(tmp_path / "m"))
    with pytest.raises(ValueError, match="trust_remote_code"):
        SentenceTransformer(str(tmp_path / "m"), device="cpu")
    loaded = SentenceTransformer(str(tmp_path / "m"), device="cpu", trust_remote_code=True)
    assert not list((tmp_path / "m").rglob("*.bin"))
    for export in (exported, loaded):
        vectors = export.encode(TEXTS)
        assert np.allclose(vectors @ vectors.T, model.similarity(TEXTS, TEXTS), atol=1e-5)
        if form != "linear":  # which has another basis; ranks of equal cosines depend on rounding
            assert np.allclose(vectors, model.encode(TEXTS), atol=1e-4 if weight else 1e-5)
        for encode in (export.encode_query, export.encode_document):  # with each member's own prompt
            assert np.allclose(encode(TEXTS), vectors, atol=1e-5)
        assert export.get_embedding_dimension() == vectors.shape[1]


def test_a_list_in_a_list_is_refused(tiny_folder, second_folder, sentences):
    with pytest.raises(InputError, match="a list of encoders contains a list: pass one flat list"):
        RankEncoder([str(tiny_folder), [str(second_folder), str(tiny_folder)]], sentences)


def test_plain_cosine_exports_without_a_module_of_ours(tiny_folder, sentences, tmp_path):
    model = RankEncoder(str(tiny_folder), sentences, rank_weight=0, progress=False)
    model.to_sentence_transformer().save_pretrained(str(tmp_path / "m"))
    loaded = SentenceTransformer(str(tmp_path / "m"), device="cpu")
    assert np.allclose(loaded.encode(TEXTS), model.encode(TEXTS), atol=1e-5)


def test_commands(tiny_folder, second_folder, corpus_file, fused, run_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    other = f"{second_folder}?prompt={PROMPT}"
    code, out, err = run_cli("build", tiny_folder, corpus_file, "--with", other, "-o", "model", "--json")
    assert code == 0, err
    about = json.loads(out)
    assert (about["rank_weight"], about["dimension"]) == (0, 56)
    assert [one["weight"] for one in about["members"]] == pytest.approx(fused.encoder.weights)
    assert np.array_equal(RankEncoder.load("model").encode(TEXTS), fused.encode(TEXTS))
    code, out, _ = run_cli("info", "model")
    assert code == 0
    assert f"weight {fused.encoder.weights[1]:.3f}" in out
    code, _, err = run_cli("encode", "model", corpus_file, "-o", "vectors.npy")
    assert code == 0, err
    lines = corpus_file.read_text().splitlines()
    assert np.allclose(np.load("vectors.npy")[:9], fused.encode(lines[:9]), atol=1e-6)
    blended = ("build", tiny_folder, corpus_file, "--with", other, "--rank-weight", "0.2", "-o", "blended")
    assert run_cli(*blended)[0] == 0
    assert RankEncoder.load("blended").rank_weight == 0.2


def test_it_is_evaluated_and_tuned(fused, saved, sentences, tmp_path):
    pairs = make_pairs(sentences, 60)
    dev = write_pairs(tmp_path / "mine.tsv", pairs)
    cosines = fused.similarity_pairwise([pair.a for pair in pairs], [pair.b for pair in pairs])
    expected = spearmanr(cosines, [pair.score for pair in pairs]).statistic
    for source in (saved, fused):
        found = evaluate(source, tasks=["sts"], dev=dev, cache=tmp_path / "vectors", progress=False).scores()
        score = next(row["mine"] for name, row in found.items() if name.endswith("cosine"))
        assert score == pytest.approx(100 * expected, abs=0.01)
    tuned = tune(saved, pairs, progress=False)
    tuned.save(tmp_path / "tuned")
    assert type(RankEncoder.load(tmp_path / "tuned").encoder) is FusedEncoder


def test_the_server_counts_what_all_members_read(fused, tiny_folder, second_folder):
    alone = [Encoder(tiny_folder), Encoder(second_folder, prompt=PROMPT)]
    expected = [sum(counts) for counts in zip(*(one.count_tokens(TEXTS)[0] for one in alone), strict=True)]
    assert fused.encoder.count_tokens(TEXTS)[0] == expected
    fused.encoder.batch_size = 8
    assert [member.batch_size for member in fused.encoder.members] == [8, 8]


def test_bad_input(tiny_folder, second_folder, sentences, saved, tmp_path):
    copy = shutil.copytree(tiny_folder, tmp_path / "copy")
    for members, message in [
        ([str(tiny_folder), str(copy)], r"copy' is the same encoder as '.*': pass each one once"),
        (
            [str(tiny_folder), lambda texts: np.ones((len(texts), 4))],
            r"<lambda>' gives all pairs .* leave it",
        ),
        ([str(tiny_folder), str(tmp_path / "nowhere")], "nowhere"),
        ([str(tiny_folder)], "at least 2, not 1"),
    ]:
        with pytest.raises(InputError, match=message):
            RankEncoder(members, sentences, progress=False)
    with pytest.raises(InputError, match="2 sentences are too few to weight encoders by"):
        RankEncoder([str(tiny_folder), str(second_folder)], sentences[:2], progress=False)
    with pytest.raises(InputError, match="`prompt` and `revision` are for one encoder"):
        RankEncoder([str(tiny_folder), str(second_folder)], sentences, prompt="a: ")
    damaged = shutil.copytree(saved, tmp_path / "damaged")
    weights = damaged / "encoder/1/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    with pytest.raises(InputError, match=r"encoder/1/model.safetensors is damaged"):
        RankEncoder.load(damaged)
    with pytest.raises(InputError, match=r"encoder/1/model.safetensors is damaged"):
        RankEncoder.load(damaged, [tiny_folder, None])
    shutil.rmtree(damaged / "encoder/0")
    with pytest.raises(InputError, match=r"encoder/0/.* is missing"):
        RankEncoder.load(damaged)


@given(
    spreads=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=5),
    rows=st.integers(2, 5),
    seed=st.integers(0, 2**16),
)
def test_fused_vectors_are_unit_and_their_cosine_is_the_weighted_one(spreads, rows, seed):
    weights = (1 / np.array(spreads)) / (1 / np.array(spreads)).sum()
    draw = np.random.default_rng(seed)
    members = [draw.normal(size=(rows, 2 + number)) for number in range(len(spreads))]
    members = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in members]
    vectors = fuse_vectors([torch.from_numpy(one) for one in members], weights.tolist()).numpy()
    expected = sum(weight * (one @ one.T) for weight, one in zip(weights, members, strict=True))
    assert np.allclose(vectors @ vectors.T, expected, atol=1e-12)
    assert np.allclose(np.diag(expected), 1)
