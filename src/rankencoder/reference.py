"""The reference corpus: the sentences that every other sentence is ranked against, and their vectors."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rankencoder.encoder_sources import fetch_folder
from rankencoder.errors import InputError, ReferenceWarning
from rankencoder.fingerprints import digest
from rankencoder.fused_encoder import FusedEncoder, open_encoder
from rankencoder.io.corpus import MAX_CHARS, read_sentences
from rankencoder.io.manifest import check_manifest, write_manifest
from rankencoder.io.parts import Parts
from rankencoder.io.read_options import ReadOptions
from rankencoder.io.sampling import Sample, sample_sentences
from rankencoder.io.storage import (
    check_kinds,
    new_folder,
    read_json,
    read_tensors,
    write_json,
    write_tensors,
)
from rankencoder.progress import Progress
from rankencoder.text_fit import TextFit, with_tokenizer

if TYPE_CHECKING:
    from rankencoder.encoders import Encoder
    from rankencoder.fused_encoder import Encoders

SIZE = 10_000
SEED = 42
_PART = 2048
_FEW = 1000
_FORMAT = 1
_ABOUT = "reference.json"


@dataclass(frozen=True, eq=False)
class Reference:
    """A seeded sample of sentences with their unit vectors from one encoder.

    :param sentences: The sentences, all different.
    :param vectors: Their unit vectors, ``[n, dimension]``, float32.
    :param probe: The encoder's fingerprint: its vectors of a few fixed sentences.
    :param encoder: The encoder's name, for people.
    :param seed: The seed of the sample.
    :param counts: How many sentences were seen, and dropped as empty, over-long or duplicates.

    >>> import numpy as np
    >>> def letters(texts):  # any function from strings to vectors is an encoder
    ...     return [[1 + text.count(c) for c in "aeiou"] for text in texts]
    >>> corpus = [f"sentence number {i}" + "aeiou"[i % 5] * i for i in range(1200)]
    >>> reference = Reference.build(letters, corpus)
    >>> len(reference), reference.vectors.shape
    (1200, (1200, 5))
    """

    sentences: list[str]
    vectors: np.ndarray
    probe: np.ndarray
    encoder: str
    seed: int = SEED
    counts: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.sentences)

    def __repr__(self) -> str:
        return (
            f"Reference({len(self):,} sentences, dimension={self.vectors.shape[1]}, encoder={self.encoder!r})"
        )

    @classmethod
    def build(
        cls,
        encoder: Encoders,
        corpus: Any,
        *,
        size: int = SIZE,
        seed: int = SEED,
        column: str | ReadOptions | None = None,
        max_chars: int = MAX_CHARS,
        progress: bool = False,
        resume_beside: str | Path | None = None,
    ) -> Reference:
        """Sample a corpus and encode the sample.

        The same sentences are drawn whatever their order in the corpus. A corpus larger than memory is read
        in one pass.

        :param encoder: Whatever `Encoder` opens, or a list of encoders to fuse.
        :param corpus: A text, ``.jsonl``, ``.csv``, ``.tsv`` or ``.parquet`` file, a folder of them, a
            ``datasets`` dataset, or an iterable of strings; files also at fsspec's addresses. Or a sample
            that was drawn from one, with this size and seed.
        :param size: How many sentences to draw (the paper: 100,000; its gains level off at 10,000).
        :param seed: Draws another sample.
        :param column: The column that holds the sentences, or all `ReadOptions`.
        :param max_chars: Longer lines are dropped, and counted.
        :param resume_beside: Keep finished parts beside this path, so that interrupted work can be taken up
            again; `rankencoder.io.parts.clear_parts` removes them.
        :raises InputError: If fewer than 2 sentences are usable, or the corpus or encoder is at fault.
        """
        if size < 2:
            raise InputError(f"a reference corpus needs at least 2 sentences, not {size}")
        if isinstance(corpus, Sample):
            sample = corpus
        else:
            encoder = open_encoder(encoder)
            options = with_tokenizer(column, encoder)
            rows = read_sentences(corpus, column=options, max_chars=max_chars, progress=progress)
            sample = sample_sentences(rows, size, seed)
        _check_number(sample, max_chars)
        encode = open_encoder(encoder)
        if not isinstance(encode, FusedEncoder):  # which has no ranks unless a rank weight is given
            warn_if_small(len(sample.sentences))
        probe = encode.probe()
        if resume_beside is None:
            vectors = np.asarray(encode(sample.sentences, progress=progress).cpu().numpy())
        else:
            vectors = _encode_in_parts(sample.sentences, encode, resume_beside, progress)
        if np.ptp(vectors, axis=0).max() < 1e-6:
            raise InputError(
                f"encoder {encode.name!r} gives all sentences the same vector: nothing can be ranked"
            )
        fit = TextFit(encode)
        fit.add(sample.sentences)
        fit.warn()
        return cls(sample.sentences, vectors, probe, encode.name, seed, sample.counts)

    def check_encoder(self, encoder: Encoder) -> None:
        """Check that these vectors came from this encoder."""
        encoder.check_probe(self.probe, f"the reference corpus was encoded by {self.encoder!r}")

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write sentences and vectors to a folder, whole or not at all."""
        with new_folder(folder, overwrite=overwrite) as new:
            self.write(new)
            write_manifest(new)

    def write(self, folder: Path) -> None:
        """Write the files of a reference corpus into a folder that something else completes."""
        write_tensors(folder / "reference.safetensors", {"vectors": self.vectors, "probe": self.probe})
        about = {"format": _FORMAT, "encoder": self.encoder, "seed": self.seed, "counts": self.counts}
        write_json(folder / _ABOUT, {**about, "sentences": self.sentences})

    @classmethod
    def load(cls, folder: str | Path, *, revision: str | None = None) -> Reference:
        """Read a saved reference corpus from a folder, or by its name on the hub (at a revision)."""
        folder = fetch_folder(folder, _ABOUT, revision) or Path(folder)
        about = read_about(folder)
        check_manifest(folder)
        tensors = read_tensors(folder / "reference.safetensors")
        if len(tensors["vectors"]) != len(about["sentences"]):
            raise InputError(f"{folder} is damaged: not as many sentences as vectors; build it again")
        return cls(vectors=tensors["vectors"], probe=tensors["probe"], **about)


def read_about(folder: Path) -> dict[str, Any]:
    """Return what a saved reference corpus says of itself, its sentences among it."""
    path = folder / _ABOUT
    about = read_json(path, _FORMAT)
    check_kinds(about, path, sentences=list, encoder=str, seed=int, counts=dict)
    return {name: about[name] for name in ("sentences", "encoder", "seed", "counts")}


def _check_number(sample: Sample, max_chars: int) -> None:
    number, counts = len(sample.sentences), sample.counts
    if number < 2:
        raise InputError(
            f"too few usable sentences: {number} of {counts['seen']} lines ({counts['empty']} empty, "
            f"{counts['overlong']} longer than {max_chars} characters, {counts['duplicates']} duplicates): "
            "rank vectors need at least 2, and work well from 1,000"
        )


def warn_if_small(number: int) -> None:
    """Warn of a reference corpus that is too small for good rank vectors."""
    if number < _FEW:
        warnings.warn(
            f"a reference corpus of {number} sentences is small: rank vectors want 1,000 or more, and the "
            "paper's gains level off at 10,000",
            ReferenceWarning,
            stacklevel=3,
        )


def _encode_in_parts(
    sentences: list[str], encoder: Encoder, beside: str | Path, progress: bool
) -> np.ndarray:
    """Return the vectors of sentences; finished parts are kept beside a path, and not made again."""
    key = {"part": _PART, "sentences": digest(sentences), "encoder": encoder.fingerprint()}
    parts = Parts(beside, key)
    vectors = np.empty((len(sentences), encoder.dimension), dtype=np.float32)
    faster = "fewer reference sentences (`size`)"
    with Progress(len(sentences), desc="Encoding the reference corpus", faster=faster, show=progress) as bar:
        for number, start in enumerate(range(0, len(sentences), _PART)):
            if parts.is_finished(number):
                rows = read_tensors(parts.path(number))["vectors"]
            else:
                rows = encoder(sentences[start : start + _PART]).cpu().numpy()
                with parts.write(number) as path:
                    write_tensors(path, {"vectors": rows})
            vectors[start : start + _PART] = rows
            bar.update(len(rows))
    return vectors
