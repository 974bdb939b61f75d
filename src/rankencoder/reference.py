"""The reference corpus: sentences and vectors that every sentence ranks."""

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
from rankencoder.io.storage import check_kinds, new_folder, read_json, read_tensors, write_json, write_tensors
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

    :param sentences: The sentences, without duplicates.
    :param vectors: Their unit vectors, ``[n, dimension]``, float32.
    :param probe: The encoder's vectors of a few fixed sentences, which identify it.
    :param encoder: The encoder's name, for display.
    :param seed: The seed of the sample.
    :param counts: Number of sentences seen, and dropped as empty, too long or duplicate.

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

        The sample does not depend on the order of the corpus. The corpus is streamed in one pass.

        :param encoder: Anything that `Encoder` opens, or a list of encoders to fuse.
        :param corpus: A text, ``.jsonl``, ``.csv``, ``.tsv`` or ``.parquet`` file, a folder of them, a
            ``datasets`` dataset, or an iterable of strings. Paths may be fsspec URLs. A `Sample` is
            used as is.
        :param size: Number of sentences to sample (the paper uses 100,000; its gains level off at 10,000).
        :param seed: Random seed of the sample.
        :param column: The column that holds the sentences, or all `ReadOptions`.
        :param max_chars: Maximum characters of a line; longer ones are dropped and counted.
        :param resume_beside: Keep finished parts next to this path, so that interrupted work can resume;
            `rankencoder.io.parts.clear_parts` removes them.
        :raises InputError: If fewer than 2 sentences are usable, or the corpus or encoder is invalid.
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
        if (number := len(sample.sentences)) < 2:
            counts = sample.counts
            raise InputError(
                f"too few usable sentences: {number} of {counts['seen']} lines ({counts['empty']} empty, "
                f"{counts['overlong']} longer than {max_chars} characters, {counts['duplicates']} "
                "duplicates): rank vectors need at least 2, better 1,000 or more"
            )
        encode = open_encoder(encoder)
        if not isinstance(encode, FusedEncoder):  # fused encoders use no ranks by default
            warn_if_small(number)
        probe = encode.probe()
        if resume_beside is None:
            vectors = np.asarray(encode(sample.sentences, progress=progress).cpu().numpy())
        else:
            vectors = _encode_in_parts(sample.sentences, encode, resume_beside, progress)
        if np.ptp(vectors, axis=0).max() < 1e-6:
            raise InputError(f"encoder {encode.name!r} gives all sentences the same vector: check the model")
        fit = TextFit(encode)
        fit.add(sample.sentences)
        fit.warn()
        return cls(sample.sentences, vectors, probe, encode.name, seed, sample.counts)

    def check_encoder(self, encoder: Encoder) -> None:
        """Check that this encoder made the vectors."""
        encoder.check_probe(self.probe, f"the reference corpus was encoded by {self.encoder!r}")

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Save sentences and vectors to a folder, atomically."""
        with new_folder(folder, overwrite=overwrite) as new:
            self.write(new)
            write_manifest(new)

    def write(self, folder: Path) -> None:
        """Write the reference files into an existing folder."""
        write_tensors(folder / "reference.safetensors", {"vectors": self.vectors, "probe": self.probe})
        about = {"format": _FORMAT, "encoder": self.encoder, "seed": self.seed, "counts": self.counts}
        write_json(folder / _ABOUT, {**about, "sentences": self.sentences})

    @classmethod
    def load(cls, folder: str | Path, *, revision: str | None = None) -> Reference:
        """Load a reference corpus from a folder or by hub name."""
        folder = fetch_folder(folder, _ABOUT, revision) or Path(folder)
        about = read_about(folder)
        check_manifest(folder)
        tensors = read_tensors(folder / "reference.safetensors")
        if len(tensors["vectors"]) != len(about["sentences"]):
            raise InputError(f"{folder} is damaged: sentences and vectors differ in number; build it again")
        return cls(vectors=tensors["vectors"], probe=tensors["probe"], **about)


def read_about(folder: Path) -> dict[str, Any]:
    """Read the metadata and sentences of a saved reference corpus."""
    path = folder / _ABOUT
    about = read_json(path, _FORMAT)
    check_kinds(about, path, sentences=list, encoder=str, seed=int, counts=dict)
    return {name: about[name] for name in ("sentences", "encoder", "seed", "counts")}


def warn_if_small(number: int) -> None:
    """Warn if a reference corpus is too small for good rank vectors."""
    if number < _FEW:
        warnings.warn(
            f"a reference corpus of {number} sentences is small: use 1,000 or more (the paper's gains level "
            "off at 10,000)",
            ReferenceWarning,
            stacklevel=3,
        )


def _encode_in_parts(
    sentences: list[str], encoder: Encoder, beside: str | Path, progress: bool
) -> np.ndarray:
    """Encode sentences in parts; finished parts are kept on disk and reused."""
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
