"""Store the training sentences in a memory-mapped Arrow file."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from rankencoder.errors import InputError, TrainingWarning
from rankencoder.io.corpus import LONGEST, MAX_CHARS, Sentence, digest_line, read_sentences
from rankencoder.io.read_options import ReadOptions
from rankencoder.io.sampling import Sample, sample_sentences
from rankencoder.io.storage import check_kinds, file_digest, new_file, read_json, write_json
from rankencoder.progress import Progress

_BATCH = 4096
_FEW = 10_000


@dataclass
class Sentences:
    """The distinct sentences of a corpus, with row numbers, in their order."""

    rows: Dataset  # columns "row", "text" and "place": its number among the corpus' usable lines
    counts: dict[str, int]  # lines of the corpus: sentences, duplicates, empty and over-long ones
    sha256: str  # SHA-256 of all sentences
    lines_sha256: str  # SHA-256 of all usable lines: the sentences with their duplicates

    def __len__(self) -> int:
        return len(self.rows)

    def texts(self, start: int, stop: int) -> list[str]:
        """Return the sentences from one row up to another."""
        return list(self.rows[start:stop]["text"])

    @property
    def lines(self) -> int:
        """Usable lines of the corpus: its sentences with their duplicates."""
        return self.counts["sentences"] + self.counts["duplicates"]

    def places(self, start: int, stop: int) -> np.ndarray:
        """Return the places of sentences among the usable lines, from one row up to another."""
        return np.array(self.rows[start:stop]["place"], dtype=np.int64)

    def sample(self, size: int, seed: int, *, progress: bool) -> Sample:
        """Draw a reference corpus. The sentences were checked when they were stored."""
        texts = (text if len(text) <= MAX_CHARS else None for text in self)
        rows = (Sentence(text, "", 0) for text in texts)
        shown = Progress(len(self), desc="Drawing the reference corpus", show=progress)
        return sample_sentences(shown.over(rows), size, seed)

    def __iter__(self) -> Iterator[str]:
        """Yield all sentences, read in batches for speed."""
        for start in range(0, len(self), _BATCH):
            yield from self.texts(start, start + _BATCH)


def store_sentences(
    corpus: Any, folder: Path, *, column: str | ReadOptions | None, progress: bool
) -> Sentences:
    """Write a corpus' distinct sentences to a folder.

    Empty and over-long lines are left out, and so are duplicates, which would be false negatives in a batch.
    """
    counts = dict.fromkeys(("lines", "sentences", "empty", "overlong", "duplicates"), 0)
    digests = {"sha256": hashlib.sha256(), "lines_sha256": hashlib.sha256()}
    rows = read_sentences(corpus, column=column, max_chars=LONGEST, progress=progress)
    kept = _distinct(rows, counts, digests)
    schema = pa.schema({"row": pa.int64(), "text": pa.large_string(), "place": pa.int64()})
    arrow = folder / "sentences.arrow"
    with (
        new_file(arrow) as path,
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_stream(file, schema) as out,
    ):
        while batch := list(islice(kept, _BATCH)):
            numbers = range(counts["sentences"] - len(batch), counts["sentences"])
            texts, places = zip(*batch, strict=True)
            out.write_batch(pa.record_batch([list(numbers), texts, places], schema=schema))
    if counts["sentences"] < 2:
        lines = ", ".join(f"{value:,} {name}" for name, value in counts.items())
        number = counts["sentences"]
        raise InputError(f"too few usable sentences in the corpus: {number} ({lines}); use at least 2")
    with new_file(folder / "sentences.json") as path:
        found = {name: digest.hexdigest() for name, digest in digests.items()}
        write_json(path, {"counts": counts, **found, "file": file_digest(arrow)})
    return load_sentences(folder)


def load_sentences(folder: Path) -> Sentences:
    """Open stored sentences."""
    about, arrow = folder / "sentences.json", folder / "sentences.arrow"
    stored = check_kinds(read_json(about), about, counts=dict, sha256=str, lines_sha256=str, file=str)
    if not arrow.exists() or file_digest(arrow) != stored["file"]:  # mapping a damaged file can crash
        raise InputError(f"{arrow} was changed after it was written: train again with `overwrite`")
    rows = Dataset.from_file(str(arrow))
    return Sentences(rows, stored["counts"], stored["sha256"], stored["lines_sha256"])


def _distinct(
    rows: Iterator[Sentence], counts: dict[str, int], digests: dict[str, Any]
) -> Iterator[tuple[str, int]]:
    """Yield the distinct sentences, each with its number among the usable lines."""
    seen: set[bytes] = set()
    for row in rows:
        counts["lines"] += 1
        if row.text is None:
            counts["overlong"] += 1
        elif not row.text:
            counts["empty"] += 1
        else:
            digest_line(digests["lines_sha256"], row.text)
            key = hashlib.blake2b(row.text.encode(), digest_size=8).digest()
            if key in seen:
                counts["duplicates"] += 1
                continue
            seen.add(key)
            digest_line(digests["sha256"], row.text)
            counts["sentences"] += 1
            yield row.text, counts["sentences"] + counts["duplicates"] - 1


def warn_if_unsuitable(sentences: Sentences, tokenizer: PreTrainedTokenizerBase) -> None:
    """Warn if there are few sentences, or a tokenizer does not know their language."""
    found = []
    if len(sentences) < _FEW:
        found.append(
            f"a corpus of {len(sentences):,} sentences is small: methods were designed for 1,000,000, and "
            f"below {_FEW:,} the result may be worse than the untrained backbone"
        )
    if (share := unknown_share(sentences, tokenizer)) > 0.1:
        found.append(
            f"the backbone's tokenizer does not know {share:.0%} of the tokens: if the corpus is in another "
            "language, choose a backbone for it, e.g. xlm-roberta-base"
        )
    for message in found:
        warnings.warn(message, TrainingWarning, stacklevel=3)


def unknown_share(sentences: Sentences, tokenizer: PreTrainedTokenizerBase) -> float:
    """Return the share of unknown tokens in a sample of sentences; 0 without an unknown token."""
    if tokenizer.unk_token_id is None:
        return 0.0
    step = max(1, len(sentences) // 1000)
    sample = sentences.rows[slice(0, None, step)]["text"]
    ids = tokenizer(list(sample), add_special_tokens=False, truncation=True, max_length=128)["input_ids"]
    return float(sum(row.count(tokenizer.unk_token_id) for row in ids) / max(1, sum(map(len, ids))))
