"""What the label-free study looks at: sentences of the training text, and what can be made of them.

Nothing here has a label. Halves, sentences with words dropped and mixtures of two sentences are made of the
text itself; neighbors are those that share the rarest words with a sentence.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from rankencoder.evaluation.halves import halved
from rankencoder.io.storage import new_file

SENTENCES = 1_000
GRAM = 150  # of them, whose cosines with each other are kept: one number for each pair
SHARES = (0.2, 0.4, 0.6, 0.8)  # of a sentence's words that a mixture keeps
_WORDS = range(8, 41)


@dataclass(frozen=True)
class Sample:
    """Sentences with what was made of each; all lists are equally long.

    :param kept: The share of its words that are left in "mixed".
    :param lexical: Cosines of tf-idf vectors: "gram" of the first sentences' pairs, "near" of the neighbors.
    """

    texts: dict[str, list[str]]
    kept: list[float]
    lexical: dict[str, list[float]]

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        with new_file(path) as new:
            new.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Sample:
        """Read what `write` wrote."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))


def draw_sample(corpus: Path, number: int = SENTENCES, seed: int = 0) -> Sample:
    """Draw sentences of a corpus, and make of each what the study needs."""
    lines = corpus.read_text(encoding="utf-8").splitlines()
    rng = np.random.default_rng(seed)
    usable = [i for i in rng.permutation(len(lines)) if len(lines[i].split()) in _WORDS][:number]
    plain = [lines[i] for i in usable]
    first, second = zip(*halved(plain, number), strict=True)
    kept = [SHARES[i % len(SHARES)] for i in range(len(plain))]
    partners = np.roll(np.arange(len(plain)), len(plain) // 2)
    neighbors, near, gram = _neighbors(lines, usable)
    return Sample(
        texts={
            "plain": plain,
            "first": list(first),
            "second": list(second),
            "dropped": [drop_words(text, 0.5, rng) for text in plain],
            "mixed": [
                mix_words(plain[i], plain[j], kept[i], rng)
                for i, j in zip(range(len(plain)), partners, strict=True)
            ],
            "near": neighbors,
        },
        kept=kept,
        lexical={"near": near, "gram": gram},
    )


def drop_words(text: str, share: float, rng: np.random.Generator) -> str:
    """Return a sentence without some share of its words, the others in their order.

    >>> drop_words("a b c d", 0.5, np.random.default_rng(0))
    'a c'
    """
    words = text.split()
    left = np.sort(rng.permutation(len(words))[: len(words) - round(share * len(words))])
    return " ".join(words[i] for i in left)


def mix_words(text: str, other: str, kept: float, rng: np.random.Generator) -> str:
    """Return a sentence in which some share of the words is kept, and another's stand for the others.

    >>> mix_words("a b c d", "e f g h i", 0.5, np.random.default_rng(0))
    'a f c h'
    """
    words, others = text.split(), other.split()
    changed = rng.permutation(len(words))[round(kept * len(words)) :]
    for i in changed:
        words[i] = others[i % len(others)]
    return " ".join(words)


def _neighbors(lines: list[str], rows: list[int]) -> tuple[list[str], list[float], list[float]]:
    """Return the nearest other line of each row by tf-idf, its cosine, and the cosines among first rows."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    table = TfidfVectorizer(sublinear_tf=True, stop_words=None, min_df=2).fit_transform(lines)
    chosen = table[rows]
    cosines = (chosen @ table.T).tocsr()
    found, values = [], []
    for i, row in enumerate(rows):
        line = cosines[i]
        line.data[(line.indices == row) | (line.data > 0.95)] = 0  # itself, and its duplicates
        best = int(line.data.argmax())
        found.append(lines[line.indices[best]])
        values.append(float(line.data[best]))
    gram = (chosen[:GRAM] @ chosen[:GRAM].T).toarray()
    return found, values, gram[np.triu_indices(len(gram), 1)].tolist()
