"""Sentences turned into their negations, SNCSE's soft negatives: made once, in parallel, and kept."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from importlib import metadata
from itertools import islice, takewhile
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError
from rankencoder.io.corpus import LONGEST
from rankencoder.io.parts import Parts, clear_parts
from rankencoder.io.storage import new_file

if TYPE_CHECKING:
    from datasets import Dataset
    from spacy.language import Language
    from spacy.tokens import Doc, Token

_BE = ("am", "is", "was", "are", "were")
_MODALS = ("can", "could", "will", "would", "shall", "should", "may", "must", "might")
_DO = {"VBP": "do", "VBZ": "does", "VBD": "did"}
_COMPONENTS = ("tagger", "parser", "lemmatizer")
_RULES = 1  # raise it when `negate` changes, so that negations made by older rules are not found any more
_PART = 2048
_BATCH = 256

Job = tuple[int, list[str]]


def negate(doc: Doc) -> str:
    """Return the negation of a parsed sentence by the rules of SNCSE (Wang et al., 2022).

    The first "not" is deleted. Without one, the first auxiliary before the main word gets a "not", or else
    the main word if it is a finite verb, or else the sentence.

    :param doc: A sentence with dependencies, tags and lemmas.
    :return: The tokens, joined by single blanks.
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
    """Load a spaCy model that tells what `negate` needs to know.

    :param name: An installed package or a folder.
    :raises InputError: If spaCy or the model is missing, or the model cannot parse.
    """
    try:
        import spacy
    except ImportError as error:
        raise InputError("SNCSE negates sentences with spaCy: pip install 'rankencoder[sncse]'") from error
    try:
        parser = spacy.load(name, exclude=["ner"])
    except OSError as error:
        raise InputError(_no_model(name)) from error
    if missing := [component for component in _COMPONENTS if component not in parser.pipe_names]:
        raise InputError(f"the spaCy model {name} has no {missing[0]}: SNCSE needs {', '.join(_COMPONENTS)}")
    return parser


def _no_model(name: str) -> str:
    if os.sep in name or Path(name).is_dir():
        return f"{name} is no folder of a spaCy model: it needs config.cfg and meta.json"
    return f"SNCSE negates sentences with the spaCy model {name}: python -m spacy download {name}"


def negate_sentences(
    sentences: Sequence[str],
    *,
    fingerprint: str,
    parser: str = "en_core_web_sm",
    processes: int | None = None,
    cache: Path | None = None,
    progress: bool = False,
) -> Dataset:
    """Return the negations of sentences, from the cache if they were made before.

    Processes that ask for the same negations at the same time wait for the first of them.

    :param sentences: A list, the column of a ``datasets`` dataset, or anything else that can be sliced.
    :param fingerprint: What tells these sentences from others.
    :param parser: The spaCy model, an installed package or a folder.
    :param processes: How many processes parse; 1 stays in this one. By default one for each usable CPU.
    :param cache: The folder of the cache, by default ``$RANKENCODER_CACHE`` or ``~/.cache/rankencoder``;
        negations lie in its sub-folder ``negations``.
    :param progress: Show a progress bar.
    :return: A memory-mapped dataset with one column, "negation": row i belongs to sentence i.
    :raises InputError: If the input is at fault. What was negated so far is kept for the next try.
    """
    from datasets import Dataset
    from filelock import FileLock

    if processes is not None and processes < 1:
        raise InputError(f"processes is {processes}: it must be 1 or more")
    key = {"fingerprint": fingerprint, "parser": parser, "version": _version(parser), "rules": _RULES}
    target = _target(key, cache)
    if not _is_whole(target, len(sentences)):
        _refuse_unguarded_script()
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_suffix(".lock")):
            if not _is_whole(target, len(sentences)):
                _make(target, sentences, key, processes or _usable_cpus(), progress)
    return Dataset.from_file(str(target))


def _version(parser: str) -> str:
    """Return the version of a spaCy model, or a digest of what its folder says of it, without loading it."""
    with suppress(metadata.PackageNotFoundError, ValueError):
        return metadata.version(parser)
    try:
        return hashlib.sha256((Path(parser) / "meta.json").read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(_no_model(parser)) from error


def _target(key: dict[str, Any], cache: Path | None) -> Path:
    folder = Path(cache or os.environ.get("RANKENCODER_CACHE") or "~/.cache/rankencoder").expanduser()
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return folder / "negations" / f"{digest[:32]}.arrow"


def _is_whole(target: Path, count: int) -> bool:
    """Say whether a file holds as many negations as there are sentences."""
    from datasets import Dataset

    try:
        cached = Dataset.from_file(str(target))
    except (OSError, ValueError):
        return False
    return cached.column_names == ["negation"] and len(cached) == count


def _refuse_unguarded_script() -> None:
    """Stop a worker that runs its parent's script anew: it would wait for the lock that its parent holds."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise InputError("start the work of the script under: if __name__ == '__main__':")


def _usable_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _make(target: Path, sentences: Sequence[str], key: dict[str, Any], processes: int, shown: bool) -> None:
    from tqdm.auto import tqdm

    count = len(sentences)
    parts = Parts(target, {**key, "sentences": count, "part": _PART})
    numbers = range(-(-count // _PART))
    todo = [number for number in numbers if not parts.is_finished(number)]
    done = count - sum(min(_PART, count - number * _PART) for number in todo)
    jobs = ((number, _texts(sentences, number * _PART)) for number in todo)
    bar = tqdm(total=count, initial=done, desc="Negating", unit=" sentences", disable=not shown)
    with bar, closing(_negated(jobs, key["parser"], min(processes, len(todo)))) as results:
        for number, negations in results:
            with parts.write(number) as path:
                _write(path, [negations])
            bar.update(len(negations))
    with new_file(target) as path:
        _write(path, (_read(parts.path(number)) for number in numbers))
    clear_parts(target)


def _texts(sentences: Sequence[str], start: int) -> list[str]:
    texts = list(sentences[start : start + _PART])
    for number, text in enumerate(texts, start):
        if not isinstance(text, str):
            raise InputError(f"sentence {number} is no text but {type(text).__name__}")
        if len(text) > LONGEST:
            raise InputError(f"sentence {number} is longer than {LONGEST:,} characters: shorten or drop it")
    return [text.strip() for text in texts]


def _write(path: Path, parts: Iterable[list[str]]) -> None:
    """Write an Arrow stream, as ``datasets`` maps it into memory, with a batch for each part."""
    import pyarrow as pa

    schema = pa.schema({"negation": pa.string()})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as stream:
        for negations in parts:
            stream.write_batch(pa.record_batch([pa.array(negations, pa.string())], schema=schema))


def _read(path: Path) -> list[str]:
    import pyarrow as pa

    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        return list(stream.read_all()["negation"].to_pylist())


def _negated(jobs: Iterator[Job], parser: str, processes: int) -> Generator[Job, None, None]:
    """Yield the numbers of the jobs with the negations of their sentences, in any order."""
    if processes > 1:
        yield from _negated_by_workers(jobs, parser, processes)
    for number, texts in jobs:
        yield number, _negations(parser, texts)
    _loaded.cache_clear()


def _negations(parser: str, texts: list[str]) -> list[str]:
    if _stopped():
        return []
    docs = _loaded(parser).pipe(texts, batch_size=_BATCH)
    return [negate(doc) for doc in takewhile(lambda _: not _stopped(), docs)]


def _stopped() -> bool:
    """Say whether this is a worker whose parent gave up; what it returns then is not read."""
    return _stop is not None and _stop.is_set()


_loaded = lru_cache(maxsize=1)(load_parser)


def _negated_by_workers(jobs: Iterator[Job], parser: str, processes: int) -> Iterator[Job]:
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    pool = ProcessPoolExecutor(processes, context, _start_worker, (stop,))
    running: dict[Future[list[str]], int] = {}
    try:
        while True:
            for number, texts in islice(jobs, 2 * processes - len(running)):
                with _interrupts_held_back():
                    running[pool.submit(_negations, parser, texts)] = number
            if not running:
                return
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
    except BrokenProcessPool as error:
        raise InputError(
            "a worker process died: is the memory full, or does the script start its work outside of "
            "if __name__ == '__main__'? processes=1 does without workers"
        ) from error
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Let this process see Ctrl-C after the block, and those that start in it never, not even in imports."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_stop: Event | None = None  # set in workers alone


def _start_worker(stop: Event) -> None:
    global _stop
    _stop = stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    """End a worker whose parent was killed; it would wait for work for ever."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
