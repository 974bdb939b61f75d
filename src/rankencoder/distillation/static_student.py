"""Build a static encoder: one vector per corpus word and tokenizer piece."""

from __future__ import annotations

import string
import warnings
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize
from tokenizers import Tokenizer
from tokenizers.models import WordLevel, WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.trainers import WordLevelTrainer, WordPieceTrainer

from rankencoder.encoders import Encoder
from rankencoder.errors import InputError, TrainingWarning
from rankencoder.tokens import join_ids

_WORDS = 50_000  # maximum number of corpus words
_COMMON = 32_000  # maximum number of teacher tokens; in BERT's vocabularies the first are common
_PIECES = 8_000  # word pieces of a tokenizer trained on the corpus
_OFTEN = 2  # minimum occurrences of a word
_SIF = 1e-3  # smooth inverse frequency: tokens with this share of the corpus get half the weight of rare ones
_CONTEXT = 0.5  # weight of the sentences that contain a token
_UNKNOWN = "[UNK]"
_READ = 8192  # sentences at a time


def make_static(
    teacher: Encoder,
    sentences: Iterable[str],
    vectors: np.ndarray | None = None,
    rows: np.ndarray | None = None,
    *,
    dim: int = 256,
    tokenizer: Any = None,
    progress: bool = False,
) -> SentenceTransformer:
    """Return a static encoder: the mean of token vectors, each the teacher's vector of the token's text.

    :param sentences: The corpus; it is read several times, so pass a list, not a generator.
    :param vectors: The teacher's vectors of these sentences, if known: tokens then also learn from the
        sentences that contain them. With ``rows``, those rows of a larger table.
    :param dim: Number of dimensions, at most the teacher's.
    :param tokenizer: The tokenizer whose tokens to keep; by default the teacher's, if any.
    """
    tokenizer = corpus_tokenizer(tokenizer or getattr(teacher.model, "tokenizer", None), sentences)
    weights = _SIF / (_SIF + token_shares(tokenizer, sentences))  # Arora et al., 2017
    found = token_vectors(teacher, tokenizer, progress=progress)
    if vectors is not None:
        found += _CONTEXT * context_vectors(tokenizer, sentences, vectors, rows)
    if dim > (most := min(found.shape)):
        warnings.warn(
            f"the static student has {most} dimensions, not {dim}: its teacher's vectors have no more",
            TrainingWarning,
            stacklevel=2,
        )
    weighted = reduce_dimensions(found, dim) * weights[:, None]
    embedding = StaticEmbedding(tokenizer, embedding_weights=weighted.astype(np.float32))
    return SentenceTransformer(modules=[embedding, Normalize()], device="cpu")


def corpus_tokenizer(teachers: Any, sentences: Iterable[str]) -> Tokenizer:
    """Return a WordPiece tokenizer with whole words of the corpus, and pieces for all others.

    WordPiece matches the longest token first, so words take precedence over their pieces.

    :param teachers: The teacher's tokenizer, whose tokens are kept; if it is not WordPiece, one is trained on
        the corpus instead.
    """
    core = getattr(teachers, "backend_tokenizer", teachers)
    if not isinstance(getattr(core, "model", None), WordPiece):
        core = _train_tokenizer(sentences)
    unknown, prefix = core.model.unk_token, core.model.continuing_subword_prefix
    tokens = dict.fromkeys([unknown, *_common_tokens(core), *_frequent_words(core, sentences)])
    vocabulary = {token: place for place, token in enumerate(tokens)}
    made = Tokenizer(WordPiece(vocabulary, unk_token=unknown, continuing_subword_prefix=prefix))
    made.normalizer, made.pre_tokenizer = core.normalizer, core.pre_tokenizer
    return made


def token_shares(tokenizer: Tokenizer, sentences: Iterable[str]) -> np.ndarray:
    """Return p, the share of each token among all tokens of the corpus."""
    counts = np.zeros(tokenizer.get_vocab_size())
    for bags in _bags(tokenizer, sentences):
        counts += bags.sum(axis=0)
    if not counts.any():
        raise InputError("cannot build a static encoder: the corpus has no words")
    return np.asarray(counts / counts.sum())


def token_vectors(teacher: Encoder, tokenizer: Tokenizer, *, progress: bool) -> np.ndarray:
    """Return the teacher's vector of each token's text, such as "ing" for ##ing."""
    texts = token_texts(tokenizer)
    rows = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    vectors = teacher(list(rows), progress=progress).cpu().numpy()
    return np.asarray(vectors[[rows[text] for text in texts]])


def token_texts(tokenizer: Tokenizer) -> list[str]:
    """Return the text of each token."""
    prefix = tokenizer.model.continuing_subword_prefix
    return [token.removeprefix(prefix) or token for token in _in_order(tokenizer)]


def context_vectors(
    tokenizer: Tokenizer, sentences: Iterable[str], vectors: np.ndarray, rows: np.ndarray | None = None
) -> np.ndarray:
    """Return, for each token, the unit vector of (mean over sentences with it - mean over all), or zero."""
    rows = np.arange(len(vectors)) if rows is None else rows
    sums = np.zeros((tokenizer.get_vocab_size(), vectors.shape[1]), np.float32)
    counts, total, read = np.zeros(len(sums)), np.zeros(vectors.shape[1]), 0
    for bags in _bags(tokenizer, sentences):
        part = np.asarray(vectors[rows[read : read + bags.shape[0]]], np.float32)
        read += bags.shape[0]
        occurs = bags.sign()
        sums += occurs.T @ part
        counts += occurs.sum(axis=0)
        total += part.sum(axis=0)
    context = sums - counts[:, None] * (total / read)
    context[counts == read] = 0  # only rounding errors differ
    return np.asarray(normalize(context), np.float32)


def reduce_dimensions(vectors: np.ndarray, dim: int) -> np.ndarray:
    """Project vectors onto their first principal components."""
    return np.asarray(PCA(min(dim, *vectors.shape), svd_solver="covariance_eigh").fit_transform(vectors))


def _common_tokens(core: Tokenizer) -> list[str]:
    """Return the first tokens of a tokenizer, without those that no text contains, such as [CLS]."""
    prefix = core.model.continuing_subword_prefix
    usable = (t for t in _in_order(core) if t.startswith(prefix) or _split(core, t) == [t])
    return list(islice(usable, _COMMON))


def _bags(tokenizer: Tokenizer, sentences: Iterable[str]) -> Iterator[csr_array]:
    """Yield the token counts of each sentence, as one sparse matrix per batch of sentences."""
    rows = iter(sentences)
    for part in iter(lambda: list(islice(rows, _READ)), []):
        ids, lengths = join_ids(tokenizer.encode_batch_fast(part, add_special_tokens=False))
        ends = np.cumsum([0, *lengths])
        ones = np.ones(len(ids), np.float32)
        bags = csr_array((ones, ids, ends), shape=(len(part), tokenizer.get_vocab_size()))
        bags.sum_duplicates()
        yield bags


def _in_order(core: Tokenizer) -> list[str]:
    """Return the tokens of a tokenizer, sorted by id."""
    vocabulary: dict[str, int] = core.get_vocab(with_added_tokens=False)
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _split(core: Tokenizer, text: str) -> list[str]:
    """Return the words of a text, before they are split into pieces."""
    normal = core.normalizer.normalize_str(text) if core.normalizer else text
    if core.pre_tokenizer is None:
        return [normal]
    return [word for word, _ in core.pre_tokenizer.pre_tokenize_str(normal)]


def _frequent_words(core: Tokenizer, sentences: Iterable[str]) -> list[str]:
    """Return the words of the corpus as a tokenizer splits them, most frequent first."""
    words = Tokenizer(WordLevel())
    words.normalizer, words.pre_tokenizer = core.normalizer, core.pre_tokenizer
    trainer = WordLevelTrainer(
        vocab_size=_WORDS, min_frequency=_OFTEN, special_tokens=[], show_progress=False
    )
    words.train_from_iterator(sentences, trainer)
    return _in_order(words)


def _train_tokenizer(sentences: Iterable[str]) -> Tokenizer:
    """Train a WordPiece tokenizer for lowercase text on the corpus."""
    core = Tokenizer(WordPiece(unk_token=_UNKNOWN))
    core.normalizer, core.pre_tokenizer = BertNormalizer(lowercase=True), BertPreTokenizer()
    letters = sorted({*string.ascii_lowercase, *string.digits, *"".join(_frequent_words(core, sentences))})
    # as special tokens, letters keep this order; the trainer's own order changes from run to run
    first = [_UNKNOWN, *letters, *(f"##{letter}" for letter in letters)]
    trainer = WordPieceTrainer(
        vocab_size=len(first) + _PIECES,
        min_frequency=_OFTEN,
        special_tokens=first,
        limit_alphabet=0,
        show_progress=False,
    )
    core.train_from_iterator(sentences, trainer)
    return core
