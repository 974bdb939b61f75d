import sys
from collections import Counter

import numpy as np
import pytest
import warm
from sentence_transformers import SentenceTransformer

from rankencoder.distillation.static_student import (
    context_vectors,
    corpus_tokenizer,
    make_static,
    reduce_dimensions,
    token_shares,
    token_vectors,
)
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError, TrainingWarning

TEXTS = [
    "Remove the directory tree with rmtree.",
    "The rmtree function follows no links!",
    "A cat sees the dog.",
    "The dog and the cat follow a link.",
] * 2


@pytest.fixture
def tiny(tiny_folder):
    return Encoder(str(tiny_folder), device="cpu")


def vocabulary(model):
    return model[0].tokenizer.get_vocab()


def test_words_of_the_corpus_win_over_pieces(tiny):
    tokenizer = corpus_tokenizer(tiny.model.tokenizer, [*TEXTS, "unheard"])
    assert tokenizer.encode("RMTREE the dog, unheard").tokens == [
        *("rmtree", "the", "dog", ","),
        *("u", *(f"##{letter}" for letter in "nheard")),
    ]
    own = tiny.model.tokenizer.get_vocab()
    words = {word for text in TEXTS for word in text.lower().strip("!.").split()}
    assert set(tokenizer.get_vocab()) == set(own) - {"[PAD]", "[CLS]", "[SEP]", "[MASK]"} | words


def test_any_text_can_be_split(callable_encoder):
    student = make_static(Encoder(callable_encoder), TEXTS)
    tokenizer = student[0].tokenizer
    assert tokenizer.encode("zyx09 qua").tokens == ["z", "##y", "##x", "##0", "##9", "q", "##u", "##a"]
    assert tokenizer.encode("😀 rmtree").tokens == ["[UNK]", "rmtree"]
    assert np.linalg.norm(student.encode(["😀", "[CLS]", "a"]), axis=1) == pytest.approx(1, abs=1e-5)


def test_more_dimensions_than_the_teacher_has_are_warned_of(tiny):
    with pytest.warns(TrainingWarning, match="has 32 dimensions, not 5000"):
        assert make_static(tiny, TEXTS, dim=5000).get_embedding_dimension() == 32


def test_vectors_are_weighted_principal_components_of_the_teacher(tiny):
    student = make_static(tiny, TEXTS, dim=7)
    tokens = sorted(vocabulary(student), key=vocabulary(student).get)
    texts = [token[2:] if token.startswith("##") and token != "##" else token for token in tokens]
    vectors = tiny.model.encode(texts, normalize_embeddings=True).astype(np.float64)
    counts = Counter(token for text in TEXTS for token in student[0].tokenizer.encode(text).tokens)
    shares = np.array([counts[token] for token in tokens]) / sum(counts.values())
    centered = vectors - vectors.mean(axis=0)
    left, sizes, _ = np.linalg.svd(centered, full_matrices=False)
    expected = (left * sizes)[:, :7] * (1e-3 / (1e-3 + shares))[:, None]
    found = student[0].embedding.weight.detach().numpy()
    signs = np.sign((found * expected).sum(axis=0))
    np.testing.assert_allclose(found, expected * signs, atol=1e-4)


def test_tokens_learn_from_the_sentences_that_they_occur_in(tiny, monkeypatch):
    monkeypatch.setattr("rankencoder.distillation.static_student._READ", 3)
    tokenizer = corpus_tokenizer(tiny.model.tokenizer, TEXTS)
    vectors = np.random.default_rng(0).normal(size=(len(TEXTS), 4))
    found = context_vectors(tokenizer, TEXTS, vectors)
    for token in ("a", "rmtree", "cat"):
        rows = [token in tokenizer.encode(text).tokens for text in TEXTS]
        expected = vectors[rows].mean(axis=0) - vectors.mean(axis=0)
        expected /= np.linalg.norm(expected)
        np.testing.assert_allclose(found[tokenizer.token_to_id(token)], expected, atol=1e-4)
    for token in ("the", "river"):  # in all sentences, in none
        assert not found[tokenizer.token_to_id(token)].any()


def test_context_moves_tokens_by_half(tiny):
    vectors = tiny(TEXTS).numpy()
    found = make_static(tiny, TEXTS, vectors, dim=32)[0]
    shares = token_shares(found.tokenizer, TEXTS)
    moved = token_vectors(tiny, found.tokenizer, progress=False)
    moved += 0.5 * context_vectors(found.tokenizer, TEXTS, vectors)
    moved = (moved - moved.mean(axis=0)) * (1e-3 / (1e-3 + shares))[:, None]
    rows = found.embedding.weight.detach().numpy()
    np.testing.assert_allclose(rows @ rows.T, moved @ moved.T, atol=1e-4)  # all dimensions: turned at most


def test_a_sentence_is_the_mean_of_its_tokens(tiny):
    student = make_static(tiny, TEXTS, dim=5)
    rows = student[0].embedding.weight.detach().numpy()
    ids = [
        vocabulary(student)[token]
        for token in ("the", "dog", "removes", "rmtree")
        if token in vocabulary(student)
    ]
    mean = rows[[*ids[:2], *ids[2:]]].mean(axis=0)
    np.testing.assert_allclose(student.encode("The dog rmtree"), mean / np.linalg.norm(mean), atol=1e-6)


@pytest.mark.parametrize("dim", [1, 31, 32, 256])
def test_dimensions_are_at_most_the_teachers(tiny, dim):
    assert make_static(tiny, TEXTS, dim=dim).encode(["a cat"]).shape == (1, min(dim, 32))


def test_dimensions_are_at_most_the_vectors():
    assert reduce_dimensions(np.eye(3), 5).shape == (3, 3)


@pytest.mark.parametrize("kind", ["wordpiece", "callable"])
def test_a_student_is_the_same_every_time(tiny, callable_encoder, tmp_path, kind):
    teacher = tiny if kind == "wordpiece" else Encoder(callable_encoder)
    saved = []
    for name in ("one", "two"):
        make_static(teacher, TEXTS).save_pretrained(str(tmp_path / name))
        saved.append(
            [(tmp_path / name / file).read_bytes() for file in ("model.safetensors", "tokenizer.json")]
        )
    assert saved[0] == saved[1]


def test_a_student_loads_without_this_package(tiny, tmp_path):
    student = make_static(tiny, TEXTS)
    student.save_pretrained(str(tmp_path))
    code = (
        "import sys; sys.modules['rankencoder'] = None\n"
        "from sentence_transformers import SentenceTransformer\n"
        f"print(*SentenceTransformer({str(tmp_path)!r}, device='cpu').encode('the dog')[:3])"
    )
    done = warm.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    np.testing.assert_allclose(
        [float(n) for n in done.stdout.split()], student.encode("the dog")[:3], atol=1e-5
    )


@pytest.mark.parametrize("kind", ["roberta", "llama"])
def test_teachers_with_other_tokenizers(kind):
    from tiny_backbones import KINDS

    tokenizer = corpus_tokenizer(KINDS[kind][0](), TEXTS)
    assert tokenizer.encode("The rmtree!").tokens == ["the", "rmtree", "!"]


def test_minilm_on_a_few_sentences(minilm, monkeypatch):
    monkeypatch.setattr("rankencoder.distillation.static_student._COMMON", 1200)
    student = make_static(minilm, TEXTS)
    assert isinstance(student, SentenceTransformer)
    near, far = student.similarity(student.encode("a cat"), student.encode(["the dog", "directory rmtree"]))[
        0
    ]
    assert near > far


@pytest.mark.parametrize("corpus", [[], [""], ["  ", "\n"]])
def test_a_corpus_without_words(tiny, corpus):
    with pytest.raises(InputError, match="corpus has no words"):
        make_static(tiny, corpus)


def test_a_teacher_that_fails_names_the_word(callable_encoder):
    def fails(texts):
        rows = callable_encoder(texts)
        rows[[text == "rmtree" for text in texts]] = np.nan
        return rows

    with pytest.raises(InputError, match="NaN or infinite vector for 'rmtree'"):
        make_static(Encoder(fails), TEXTS)
