"""Negate sentences for SNCSE with spaCy, and cache the result."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from rankencoder.errors import InputError, MissingExtraError
from rankencoder.io.storage import cache_root, new_file
from rankencoder.progress import Progress

if TYPE_CHECKING:
    from datasets import Dataset
    from spacy.language import Language
    from spacy.tokens import Doc

_BE = ("am", "is", "was", "are", "were")
_MODALS = ("can", "could", "will", "would", "shall", "should", "may", "must", "might")
_DO = {"VBP": "do", "VBZ": "does", "VBD": "did"}
_COMPONENTS = ("tagger", "parser", "lemmatizer")
_RULES = 1  # raise it when `negate` changes, to invalidate cached negations
_PART = 5_000  # sentences in one file of the cache, about ten seconds of work


def negate(doc: Doc) -> str:
    """Return the negation of a parsed sentence by the rules of SNCSE (Wang et al., 2022).

    The first "not" is deleted. Without one, the first auxiliary before the main word gets a "not", or else
    the main word if it is a finite verb, or else the sentence.

    :param doc: A sentence with dependencies, tags and lemmas.
    """
    tokens = [token.text for token in doc]
    verb = next((token for token in doc if token.dep_ in ("aux", "auxpass", "ROOT")), None)
    if "not" in tokens:
        tokens.remove("not")
    elif verb is None:
        tokens.insert(0, "Not")
    elif verb.dep_ != "ROOT" or verb.text.lower() in _BE + _MODALS:
        tokens[verb.i] = f"{verb.text} not"
    elif verb.tag_ in _DO:
        tokens[verb.i] = f"{_DO[verb.tag_]} not {verb.lemma_}"
    else:
        tokens.insert(0, "Not")
    return " ".join(tokens)


@cache
def load_parser(name: str) -> Language:
    """Load a spaCy model, a package or folder, with the components that `negate` needs."""
    try:
        import spacy
    except ImportError as error:
        raise MissingExtraError("SNCSE negates sentences with spaCy", "sncse") from error
    try:
        parser = spacy.load(name, exclude=["ner"])
    except OSError as error:
        raise InputError(
            f"{name} is neither a package nor a folder of a spaCy model: python -m spacy download {name}"
        ) from error
    if missing := [component for component in _COMPONENTS if component not in parser.pipe_names]:
        raise InputError(f"the spaCy model {name} has no {missing[0]}: SNCSE needs {', '.join(_COMPONENTS)}")
    return parser


def negate_sentences(
    sentences: Sequence[str], *, fingerprint: str, parser: str, progress: bool = False
) -> Dataset:
    """Return the negations of sentences, from the cache if they were made before.

    Interrupted work resumes where it stopped. A second process that asks for the same negations waits for the
    first.

    :param sentences: A list, a column of a ``datasets`` dataset, or anything else that can be sliced.
    :param fingerprint: Identifies the sentences.
    :param parser: The spaCy model, an installed package or a folder.
    :return: A memory-mapped dataset with one column, "negation": row i belongs to sentence i.
    """
    from datasets import Dataset, concatenate_datasets
    from filelock import FileLock

    key = json.dumps([fingerprint, load_parser(parser).meta, _RULES, _PART], sort_keys=True, default=str)
    folder = cache_root("negations") / hashlib.sha256(key.encode()).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    parts = {start: folder / f"part-{start:09d}.arrow" for start in range(0, len(sentences), _PART)}
    with FileLock(folder.with_suffix(".lock")):
        todo = {start: path for start, path in parts.items() if not path.exists()}
        total = sum(min(_PART, len(sentences) - start) for start in todo)
        with Progress(total, desc="Negating", show=progress) as bar:
            for start, path in todo.items():
                texts = sentences[start : start + _PART]
                _write_part(path, texts, parser)
                bar.update(len(texts))
    return concatenate_datasets([Dataset.from_file(str(path)) for path in parts.values()])


def _write_part(path: Path, sentences: Sequence[str], parser: str) -> None:
    import pyarrow as pa

    texts = (text.strip() for text in sentences)
    made = [negate(doc) for doc in load_parser(parser).pipe(texts, batch_size=256)]
    table = pa.table({"negation": pa.array(made, pa.string())})
    with new_file(path) as file, pa.ipc.new_stream(str(file), table.schema) as stream:
        stream.write_table(table)
