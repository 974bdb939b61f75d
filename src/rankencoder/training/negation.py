"""Turn sentences into their negations, the soft negatives of SNCSE; each corpus is parsed once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rankencoder.errors import InputError
from rankencoder.io.cache import cache_root
from rankencoder.io.storage import new_file

if TYPE_CHECKING:
    from datasets import Dataset
    from spacy.language import Language
    from spacy.tokens import Doc, Token

_BE = ("am", "is", "was", "are", "were")
_MODALS = ("can", "could", "will", "would", "shall", "should", "may", "must", "might")
_DO = {"VBP": "do", "VBZ": "does", "VBD": "did"}
_COMPONENTS = ("tagger", "parser", "lemmatizer")
_RULES = 1  # raise it when `negate` changes: negations made by older rules are not found any more
_PART = 20_000  # sentences in one file of the cache
_FEW = 5_000  # sentences for each further process


def negate(doc: Doc) -> str:
    """Return the negation of a parsed sentence by the rules of SNCSE (Wang et al., 2022).

    The first "not" is deleted. Without one, the first auxiliary before the main word gets a "not", or else
    the main word if it is a finite verb, or else the sentence.

    :param doc: A sentence with dependencies, tags and lemmas.
    """
    tokens = [token.text for token in doc]
    if "not" in tokens:
        tokens.remove("not")
    elif (verb := _first_verb(doc)) is not None and (negated := _negated_verb(verb)):
        tokens[verb.i] = negated
    else:
        tokens.insert(0, "Not")
    return " ".join(tokens)


def _first_verb(doc: Doc) -> Token | None:
    """Return the first auxiliary or the main word of a sentence, whichever comes first."""
    return next((token for token in doc if token.dep_ in ("aux", "auxpass", "ROOT")), None)


def _negated_verb(verb: Token) -> str | None:
    """Return an auxiliary or a finite verb with its "not", or None for other words."""
    if verb.dep_ != "ROOT" or verb.text.lower() in _BE + _MODALS:
        return f"{verb.text} not"
    if verb.tag_ in _DO:
        return f"{_DO[verb.tag_]} not {verb.lemma_}"
    return None


def load_parser(name: str = "en_core_web_sm") -> Language:
    """Load a spaCy model, a package or folder, that tells what `negate` needs to know."""
    try:
        import spacy
    except ImportError as error:
        raise InputError("SNCSE negates sentences with spaCy: pip install 'rankencoder[sncse]'") from error
    try:
        parser = spacy.load(name, exclude=["ner"])
    except OSError as error:
        if os.sep in name or Path(name).is_dir():
            message = f"{name} is not the folder of a spaCy model: it needs config.cfg and meta.json"
        else:
            message = f"SNCSE negates sentences with the spaCy model {name}: python -m spacy download {name}"
        raise InputError(message) from error
    if missing := [component for component in _COMPONENTS if component not in parser.pipe_names]:
        raise InputError(f"the spaCy model {name} has no {missing[0]}: SNCSE needs {', '.join(_COMPONENTS)}")
    return parser


def negate_sentences(
    sentences: Sequence[str],
    *,
    fingerprint: str,
    parser: str = "en_core_web_sm",
    processes: int | None = None,
    progress: bool = False,
) -> Dataset:
    """Return the negations of sentences, from the cache if they were made before.

    Interrupted work resumes where it stopped. A second process that asks for the same negations waits for the
    first.

    :param sentences: A list, the column of a ``datasets`` dataset, or anything else that can be sliced.
    :param fingerprint: Identifies the sentences.
    :param parser: The spaCy model, an installed package or a folder.
    :param processes: Processes that parse. By default, one per usable CPU for large corpora.
    :return: A memory-mapped dataset with one column, "negation": row i belongs to sentence i.
    """
    from datasets import Dataset, concatenate_datasets
    from filelock import FileLock

    language = load_parser(parser)
    key = json.dumps([fingerprint, language.meta, _RULES], sort_keys=True, default=str)
    folder = cache_root("negations") / hashlib.sha256(key.encode()).hexdigest()[:32]
    folder.mkdir(parents=True, exist_ok=True)
    count = len(sentences)
    rows = [range(start, min(start + _PART, count)) for start in range(0, count, _PART)]
    parts = {folder / f"part-{part.start:09d}.arrow": part for part in rows}
    with FileLock(folder.with_suffix(".lock")):
        todo = {path: part for path, part in parts.items() if not _is_whole(path, len(part))}
        if todo:
            _write_parts(todo, sentences, language, processes or _processes(count), progress)
    return concatenate_datasets([Dataset.from_file(str(path)) for path in parts])


def _processes(count: int) -> int:
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cpus, 1 + count // _FEW)


def _is_whole(path: Path, count: int) -> bool:
    """Say whether a file holds so many negations."""
    from datasets import Dataset

    try:
        return len(Dataset.from_file(str(path))) == count
    except (OSError, ValueError):
        return False


def _write_parts(
    parts: dict[Path, range], sentences: Sequence[str], parser: Language, processes: int, progress: bool
) -> None:
    import pyarrow as pa
    from tqdm.auto import tqdm

    texts = (text.strip() for part in parts.values() for text in sentences[part.start : part.stop])
    bar = tqdm(total=sum(map(len, parts.values())), desc="Negating", unit=" sentences", disable=not progress)
    negations = (negate(doc) for doc in parser.pipe(texts, batch_size=256, n_process=processes))
    with bar, closing(negations):  # which ends spaCy's processes
        for path, part in parts.items():
            made = []
            for negation in islice(negations, len(part)):
                made.append(negation)
                bar.update()
            table = pa.table({"negation": pa.array(made, pa.string())})
            with new_file(path) as file, pa.ipc.new_stream(str(file), table.schema) as stream:
                stream.write_table(table)
