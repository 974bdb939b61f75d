"""Fail-fast checks before distillation, and confirmation of API costs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from itertools import chain

from rankencoder.distillation.api_encoder import ApiEncoder
from rankencoder.distillation.distill_config import IN_PLACE, DistillConfig, Kind
from rankencoder.distillation.static_student import corpus_tokenizer, token_texts
from rankencoder.distillation.student_sources import load_student
from rankencoder.distillation.teacher_sources import (
    API,
    OBJECT,
    check_teacher,
    is_file,
    open_api,
    open_teacher,
    static_teacher,
)
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.training.checks import check_machine
from rankencoder.training.sentences import Sentences

LOG = logging.getLogger("rankencoder.distillation")


def check_distillation(config: DistillConfig, kind: Kind) -> dict[int, ApiEncoder]:
    """Check that the teachers exist and differ, and that the student can learn from them.

    :return: The teachers that are APIs, by position.
    """
    if not config.teacher:
        raise InputError("no teacher: set `teacher` to one encoder or several")
    if len(set(config.teacher)) < len(config.teacher):
        twice = next(name for name in config.teacher if config.teacher.count(name) > 1)
        raise InputError(f"{twice} is a teacher twice: to give it more weight, set `weight`")
    check_machine(config)
    for name in config.teacher:
        check_teacher(name)
    apis = {}
    for number, name in enumerate(config.teacher):
        if name.startswith(API):
            apis[number] = open_api(name, config)
            apis[number].probe()
    if kind == "static":
        static_teacher(config)
    if kind in IN_PLACE and len(config.teacher) == 1 and _is_own_teacher(config):
        raise InputError(
            f"{config.student} is student and only teacher, so there is nothing to learn: add other teachers "
            "or choose a smaller student"
        )
    return apis


def _is_own_teacher(config: DistillConfig) -> bool:
    (name,) = config.teacher
    if name.startswith((API, OBJECT)) or is_file(name):
        return False
    teacher = open_teacher(name, None, config)
    return (
        isinstance(teacher, Encoder) and teacher.fingerprint() == Encoder(load_student(config)).fingerprint()
    )


def confirm_costs(
    config: DistillConfig,
    kind: Kind,
    sentences: Sentences,
    taught: Sentences,
    apis: dict[int, ApiEncoder],
    confirm: Callable[[str], bool] | None,
) -> None:
    """Log the estimated cost of APIs, and ask for confirmation before any text is sent.

    The estimate includes the words of a static student, which come from the sentences to teach.
    """
    for number, api in apis.items():
        words: list[str] = []
        if kind == "static" and number == static_teacher(config):
            words = token_texts(corpus_tokenizer(None, taught))
        estimate = api.estimate(chain(sentences, words), price=config.api_price or None)
        LOG.info("%s", estimate)
        if confirm is not None and estimate.sentences and not confirm(str(estimate)):
            raise InputError("none of your text was sent: set `resume` to continue")
