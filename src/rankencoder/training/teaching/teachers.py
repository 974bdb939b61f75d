"""Teachers of other methods: each an E1 of its own, trained on the same sentences before E2."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankencoder.errors import InputError
from rankencoder.io.storage import RUN, read_json
from rankencoder.training.checks import check_kind, check_length
from rankencoder.training.run_outputs import SETTINGS

if TYPE_CHECKING:
    from accelerate import PartialState

    from rankencoder.training.backbones.backbone import Backbone
    from rankencoder.training.config import Given, TrainConfig
    from rankencoder.training.sentences import Sentences

_OWN = ("corpus", "column", "output", "method", "options", "teachers", "only_base", "base_encoder")
"""Settings that a teacher does not share with its student."""


def check_teachers(given: Given, backbone: Backbone) -> list[TrainConfig]:
    """Make sure that each teacher's method is there and can train the backbone; return their settings.

    :raises InputError: If not.
    """
    from rankencoder.training.methods import find_method, make_method

    found = []
    for name in given.teachers:
        cls = find_method(name)
        check_kind(name, cls, backbone)
        make_method(name, {}, cls.defaults(backbone)).check(backbone)
        found.append(given.resolve(backbone, cls, method=name))
        check_length(found[-1], backbone)
    return found


def train_teacher(
    name: str,
    folder: Path,
    work: Path,
    given: Given,
    sentences: Sentences,
    processes: PartialState,
    *,
    progress: bool,
) -> dict[str, Any]:
    """Train E1 by a method, unless it is there; return its settings and stages.

    :param folder: Where the encoder goes.
    :param work: Where it is trained, and what is begun there is resumed.
    :param given: The student's settings, which hold for its teachers too where they are given.
    """
    from rankencoder.training.run import train
    from rankencoder.training.sentences import SentencesWarning

    begun = (work / SETTINGS).exists()
    finished = begun and bool(read_json(work / RUN).get("finished"))
    processes.wait_for_everyone()  # before any process begins, or others would find it begun
    if not finished:
        own = {"column": "text", "method": name, "only_base": True, "preset": given.preset}
        shared = {key: value for key, value in given.values.items() if key not in _OWN}
        settings = {} if begun else {**shared, **own}
        rows = None if begun else sentences.rows
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SentencesWarning)  # it was said already
                train(rows, work, resume=begun, overwrite=not begun, progress=progress, **settings)
        except KeyboardInterrupt:
            raise KeyboardInterrupt from None  # "nothing was written yet" would be true of the teacher alone
    if processes.is_main_process and not folder.exists():
        if not (work / "base").exists():
            raise InputError(f"{work} is damaged: it holds no encoder; delete it")
        folder.parent.mkdir(exist_ok=True)
        os.replace(work / "base", folder)
    processes.wait_for_everyone()
    record = read_json(work / RUN)
    return {"config": record["config"], "stages": record["stages"]}
