"""Encoders by name: folders, training runs and hub names, checked before and while they are loaded."""

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
_MOST_LAYERS = 10_000
_HUB_NAME = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?", re.ASCII)
FILES = ["*.json", "*.safetensors", "*.txt", "*.model", "*.md"]  # to fetch and to push
_READ = [
    *("*config*.json", "modules.json", "tokenizer*.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.*", "merges.txt", "*.model", "*.safetensors"),
]


def split_prompt(name: str) -> tuple[str, str]:
    """Return an encoder's name and the prompt that it carries.

    >>> split_prompt("intfloat/e5-small-v2?prompt=query: ")
    ('intfloat/e5-small-v2', 'query: ')
    """
    name, _, prompt = name.partition(_PROMPT)
    return name, prompt


def join_prompt(name: str, prompt: str) -> str:
    """Return a name that carries a prompt."""
    return f"{name}{_PROMPT}{prompt}" if prompt else name


def split_revision(name: str, revision: str | None = None) -> tuple[str, str | None]:
    """Return the repository of a hub name and its revision; other names stay as they are.

    >>> split_revision("me/my-encoder@v1"), split_revision("my-encoder")
    (('me/my-encoder', 'v1'), ('my-encoder', None))
    """
    found = None if Path(name).exists() else _HUB_NAME.fullmatch(name)
    return (name, revision) if found is None else (found[1], revision or found[2])


def absolute_name(name: Any) -> Any:
    """Return a name with the whole path where it is that of a folder; its prompt stays."""
    if not isinstance(name, str):
        return name
    path, prompt = split_prompt(name)
    return join_prompt(absolute(path), prompt)


def rankencoder_folder(source: Any, revision: str | None = None) -> Path | None:
    """Return the folder of a saved RankEncoder, given that, its training run or hub name; otherwise None."""
    if not isinstance(source, (str, Path)):
        return None
    folder = Path(source)
    if (folder / RUN).exists():
        folder = folder / "rankencoder"
    return folder if (folder / CONFIG).exists() else fetch_folder(source, CONFIG, revision)


def fetch_folder(name: str | Path, file: str, revision: str | None = None) -> Path | None:
    """Return the folder of a hub repository that holds a file, fetched; None for any other name."""
    if not isinstance(name, str) or not _HUB_NAME.fullmatch(name) or Path(name).exists():
        return None
    try:
        if not (_snapshot(name, [file], revision) / file).exists():
            return None
    except Exception:  # whoever opens it as an encoder says what is wrong
        return None
    try:
        folder = _snapshot(name, FILES, revision)
    except Exception as error:
        raise InputError(f"cannot fetch {name!r} from the hub: {first_line(error)}") from error
    if not (folder / MANIFEST).exists():
        raise InputError(f"{name!r} is not whole, on the hub or in its cache: fetch or push it again")
    return folder


def push_folder(folder: str | Path, name: str, *, private: bool = True) -> str:
    """Upload a saved RankEncoder, encoder or reference corpus to the hub, and return its address.

    The token is that of ``hf auth login``, or of the environment (``HF_TOKEN``). Only safetensors, JSON and
    text files are sent.

    :param folder: A saved folder, or that of a training run: its RankEncoder, if it has one.
    :param name: The repository, as ``owner/name``; made if it is not there.
    :raises InputError: If the folder is not whole, or the hub refuses it.
    """
    source = rankencoder_folder(Path(folder)) or Path(encoder_folder(str(folder)))
    if not check_manifest(source) and not (source / "modules.json").is_file():
        raise InputError(f"{folder} is neither a saved RankEncoder or reference corpus nor an encoder")
    from huggingface_hub import HfApi

    try:
        with quiet_hub():
            url = HfApi().create_repo(name, private=private, exist_ok=True)
            HfApi().upload_folder(repo_id=name, folder_path=source, allow_patterns=FILES)
    except Exception as error:  # no token, no right to write, no valid name, no network
        raise InputError(f"cannot push {folder} to {name!r}: {first_line(error)}") from error
    return str(url)


def encoder_folder(name: str) -> str:
    """Return where the encoder of a training run is; other names stay as they are."""
    run = Path(name)
    if not (run / RUN).exists():
        return name
    finished = read_json(run / RUN).get("finished")
    for folder in (run / "encoder", run / "base"):  # an unfinished run's base is not what it is to become
        if folder.is_dir() and (finished or folder.name == "encoder"):
            return str(folder)
    raise InputError(f"the training in {run} has not finished an encoder yet: resume it first")


def check_model(source: Any) -> None:
    """Check that there is a RankEncoder, a training run or an encoder of this name, without loading it."""
    if not isinstance(source, (str, Path)):
        return
    name, prompt = split_prompt(str(source))
    if rankencoder_folder(name) is None:
        check_encoder_name(name)
    elif prompt:
        raise InputError(f"{name} is a RankEncoder, which has a prompt of its own: leave ?prompt= out")


def check_encoder_name(name: str, revision: str | None = None) -> None:
    """Check that there is an encoder of this name, without loading it."""
    folder = Path(encoder_folder(split_prompt(name)[0]))
    if not folder.exists():
        check_not_interrupted(folder)
        check_hub(str(folder), revision)
    elif not (folder / "config.json").exists() and not (folder / "modules.json").exists():
        raise InputError(
            f"{folder} is no encoder: a SentenceTransformer folder has a modules.json or config.json"
        )


def load_sentence_transformer(name: str, *, revision: str | None, device: str | None) -> SentenceTransformer:
    """Load a SentenceTransformer from a folder or the hub: safetensors only, no code from the repository."""
    from sentence_transformers import SentenceTransformer

    if device is not None:
        check_device(device)
    check_encoder_name(name, revision)
    name = encoder_folder(name)
    folder = Path(name)
    check_readable(folder)
    try:
        check_layers(folder)
        repository, revision = split_revision(name, revision)
        model = SentenceTransformer(
            repository, revision=revision, device=device, model_kwargs={"use_safetensors": True}
        )
        model.encode("Warm up.", show_progress_bar=False)  # what does not fit together fails here
        return model
    except Exception as error:  # whatever a damaged or foreign folder makes the libraries raise
        where = f"{name} is damaged or not an encoder" if folder.exists() else "not a usable encoder"
        raise InputError(f"cannot load encoder {name!r} ({where}): {first_line(error)}") from error


def check_readable(folder: Path) -> None:
    """Check that all files of a model can be read: libraries would go on without some of them."""
    for path in (found for name in _READ for found in (*folder.glob(name), *folder.glob(f"*/{name}"))):
        try:
            path.open("rb").close()
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from error


def check_layers(folder: Path) -> None:
    """Check that a damaged number of layers does not keep transformers busy until memory is full."""
    for path in (*folder.glob("config.json"), *folder.glob("*/config.json")):
        layers = read_json(path).get("num_hidden_layers")
        if isinstance(layers, (int, float)) and layers > _MOST_LAYERS:
            raise InputError(f"{path} has {layers:,} hidden layers, more than any encoder")


def check_device(device: str) -> None:
    """Check that a device can compute."""
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"cannot run on device {device!r}: {first_line(error)}") from error


def check_hub(name: str, revision: str | None, *, what: str = "encoder") -> None:
    """Fetch one small file of a hub repository, so that a wrong name fails at once and in one line."""
    try:
        _snapshot(name, ["modules.json"], revision)
    except Exception as error:  # no such repository or revision, no valid name, no network
        reason = first_line(error)
        if type(error).__name__ == "LocalEntryNotFoundError":
            reason = "not in its cache, and no hub within reach"
        raise InputError(f"cannot load {what} {name!r}: no such folder, nor on the hub: {reason}") from error


def _snapshot(name: str, patterns: list[str], revision: str | None) -> Path:
    """Fetch some files of a hub repository, and return the folder of its cache that holds them."""
    from huggingface_hub import snapshot_download

    cache = os.environ.get("SENTENCE_TRANSFORMERS_HOME")  # as sentence-transformers has it
    name, revision = split_revision(name, revision)
    with quiet_hub():
        found = snapshot_download(
            name, revision=revision, cache_dir=cache, allow_patterns=patterns, etag_timeout=5
        )
    return Path(found)


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Silence huggingface_hub's warnings, one for each retry: an error says the same."""
    from huggingface_hub import utils

    if Progress.in_log:
        utils.disable_progress_bars()  # type: ignore[attr-defined]
    before = utils.logging.get_verbosity()
    utils.logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        utils.logging.set_verbosity(before)
