"""Find, check, load and push encoders by name: folders, training runs and hub repositories."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError, first_line
from rankencoder.io.manifest import MANIFEST, check_manifest
from rankencoder.io.storage import CONFIG, RUN, absolute, check_not_interrupted, read_json
from rankencoder.progress import Progress

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

_PROMPT = "?prompt="
_MOST_LAYERS = 10_000  # transformers would build more, until memory is full
_HUB_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?", re.ASCII)
FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "*.md"]  # to fetch from and push to the hub
_READ = [
    *("*config*.json", "modules.json", "tokenizer*.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.*", "merges.txt", "*.model", "*.safetensors"),
]


def split_prompt(name: str) -> tuple[str, str]:
    """Split the prompt off an encoder's name.

    >>> split_prompt("intfloat/e5-small-v2?prompt=query: ")
    ('intfloat/e5-small-v2', 'query: ')
    """
    name, _, prompt = name.partition(_PROMPT)
    return name, prompt


def join_prompt(name: str, prompt: str) -> str:
    """Append a prompt to an encoder's name."""
    return f"{name}{_PROMPT}{prompt}" if prompt else name


def split_revision(name: str, revision: str | None = None) -> tuple[str, str | None]:
    """Split the revision off a hub name; other names are returned unchanged.

    >>> split_revision("me/my-encoder@v1"), split_revision("my-encoder")
    (('me/my-encoder', 'v1'), ('my-encoder', None))
    """
    found = None if Path(name).exists() else _HUB_NAME.fullmatch(name)
    return (name, revision) if found is None else (found[1], revision or found[2])


def absolute_name(name: Any) -> Any:
    """Make the path in an encoder's name absolute; hub names and other objects are returned unchanged."""
    if not isinstance(name, str):
        return name
    path, prompt = split_prompt(name)
    return join_prompt(absolute(path), prompt)


def rankencoder_folder(source: Any, revision: str | None = None) -> Path | None:
    """Return a saved RankEncoder's folder, given the folder, training run or hub name; else None."""
    if not isinstance(source, (str, Path)):
        return None
    folder = Path(source)
    if (folder / RUN).exists():
        folder = folder / "rankencoder"
    return folder if (folder / CONFIG).exists() else fetch_folder(source, CONFIG, revision)


def fetch_folder(name: str | Path, file: str, revision: str | None = None) -> Path | None:
    """Fetch a hub repository that holds this file, and return its folder; None for any other name."""
    if not isinstance(name, str) or not _HUB_NAME.fullmatch(name) or Path(name).exists():
        return None
    try:
        if not (fetch_files(name, [file], revision) / file).exists():
            return None
    except Exception:  # opening it as an encoder reports the error
        return None
    try:
        folder = fetch_files(name, FILES, revision)
    except Exception as error:
        raise InputError(f"cannot fetch {name!r} from the hub: {first_line(error)}") from error
    if not (folder / MANIFEST).exists():
        raise InputError(f"{name!r} is incomplete on the hub or in its cache: push or fetch it again")
    return folder


def push_folder(folder: str | Path, name: str, *, private: bool = True) -> str:
    """Upload a saved RankEncoder, encoder or reference corpus to the hub, and return its URL.

    The token is that of ``hf auth login`` or ``HF_TOKEN``. Only safetensors, JSON and text files are
    uploaded.

    :param folder: A saved folder, or a training run, whose RankEncoder is pushed if there is one.
    :param name: The repository, as ``owner/name``; created if it does not exist.
    :raises InputError: If the folder is incomplete, or the hub refuses it.
    """
    source = rankencoder_folder(Path(folder)) or Path(encoder_folder(str(folder)))
    if not check_manifest(source) and not (source / "modules.json").is_file():
        raise InputError(f"{folder} is not a saved RankEncoder, reference corpus or encoder")
    from huggingface_hub import HfApi

    try:
        with quiet_hub():
            url = HfApi().create_repo(name, private=private, exist_ok=True)
            HfApi().upload_folder(repo_id=name, folder_path=source, allow_patterns=FILES)
    except Exception as error:  # no token, no right to write, no valid name, no network
        raise InputError(f"cannot push {folder} to {name!r}: {first_line(error)}") from error
    return str(url)


def encoder_folder(name: str) -> str:
    """Return the folder of a training run's encoder; other names are returned unchanged."""
    run = Path(name)
    if not (run / RUN).exists():
        return name
    finished = read_json(run / RUN).get("finished")
    for folder in (run / "encoder", run / "base"):  # an unfinished run's base is not its result
        if folder.is_dir() and (finished or folder.name == "encoder"):
            return str(folder)
    raise InputError(f"the training in {run} has not finished an encoder yet: resume it first")


def check_model(source: Any) -> None:
    """Check that a RankEncoder, training run or encoder exists, without loading it."""
    if not isinstance(source, (str, Path)):
        return
    name, prompt = split_prompt(str(source))
    if rankencoder_folder(name) is None:
        check_encoder_name(name)
    elif prompt:
        raise InputError(f"{name} is a RankEncoder, which has its own prompt: leave ?prompt= out")


def check_encoder_name(name: str, revision: str | None = None) -> None:
    """Check that an encoder exists, without loading it."""
    folder = Path(encoder_folder(split_prompt(name)[0]))
    if not folder.exists():
        check_not_interrupted(folder)
        check_hub(str(folder), revision)
    elif not (folder / "config.json").exists() and not (folder / "modules.json").exists():
        raise InputError(
            f"{folder} is not an encoder: a SentenceTransformer folder has a modules.json or config.json"
        )


def load_sentence_transformer(name: str, *, revision: str | None, device: str | None) -> SentenceTransformer:
    """Load a SentenceTransformer from a folder or the hub, without pickled weights or custom code."""
    from sentence_transformers import SentenceTransformer

    if device is not None:
        check_device(device)
    check_encoder_name(name, revision)
    name = encoder_folder(name)
    folder = Path(name)
    try:
        check_readable(folder)
        repository, revision = split_revision(name, revision)
        model = SentenceTransformer(
            repository, revision=revision, device=device, model_kwargs={"use_safetensors": True}
        )
        model.encode("Warm up.", show_progress_bar=False)  # mismatched parts fail here
        return model
    except Exception as error:  # libraries raise anything for a damaged or foreign folder
        where = f"{name} is damaged or not an encoder" if folder.exists() else "not a usable encoder"
        raise InputError(f"cannot load encoder {name!r} ({where}): {first_line(error)}") from error


def check_readable(folder: Path) -> None:
    """Check that a model's files can be read: libraries silently skip some unreadable ones."""
    for path in (found for name in _READ for found in (*folder.glob(name), *folder.glob(f"*/{name}"))):
        try:
            path.open("rb").close()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error
        layers = read_json(path).get("num_hidden_layers") if path.name == "config.json" else None
        if isinstance(layers, (int, float)) and layers > _MOST_LAYERS:
            raise InputError(f"{path} has {layers:,} hidden layers, more than any encoder")


def check_device(device: str) -> None:
    """Check that a device is available."""
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"cannot run on device {device!r}: {first_line(error)}") from error


def check_hub(name: str, revision: str | None, *, what: str = "encoder") -> None:
    """Fetch one small file of a hub repository, so that a wrong name fails early."""
    try:
        fetch_files(name, ["modules.json"], revision)
    except Exception as error:  # no such repository or revision, no valid name, no network
        reason = first_line(error)
        if type(error).__name__ == "LocalEntryNotFoundError":
            reason = "not in its cache, and the hub is not reachable"
        raise InputError(f"cannot load {what} {name!r}: no such folder or hub name: {reason}") from error


def fetch_files(name: str, patterns: list[str], revision: str | None = None) -> Path:
    """Fetch some files of a hub repository, and return their folder in its cache."""
    from huggingface_hub import snapshot_download

    cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")  # like sentence-transformers
    name, revision = split_revision(name, revision)
    with quiet_hub():
        found = snapshot_download(
            name, revision=revision, cache_dir=cache, allow_patterns=patterns, etag_timeout=5
        )
    return Path(found)


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Silence huggingface_hub's warnings about retries: an error follows if they fail."""
    from huggingface_hub import utils

    if Progress.in_log:
        utils.disable_progress_bars()  # type: ignore[attr-defined]
    before = utils.logging.get_verbosity()
    utils.logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        utils.logging.set_verbosity(before)
