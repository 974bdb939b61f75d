"""Settings that all trainings share, and how to declare a setting."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from rankencoder.errors import InputError, find_name
from rankencoder.io.read_options import ReadOptions
from rankencoder.training.settings_file import Settings

DATA, METHOD, TEACHING, TRAINING = "Data", "Method", "Teachers and student", "Training"
STAGE_2, RUNNING = "Stage 2 and RankEncoder", "Running"
_GROUPS = (DATA, METHOD, TEACHING, TRAINING, STAGE_2, RUNNING)  # as help and documentation list them


def _existing(name: str) -> str:
    from rankencoder.encoder_sources import absolute_name

    return str(absolute_name(name))


def _path(name: str) -> str:
    return str(Path(name).expanduser().resolve()) if name else ""


def _scored_pairs(name: str) -> str:
    from rankencoder.io.pairs import DEV_FILES
    from rankencoder.io.storage import data_folder

    known = None if Path(name).exists() else find_name(name, DEV_FILES)
    if known is None:
        return _path(name)
    fetched = data_folder() / "senteval" / "downstream" / DEV_FILES[known]
    if not fetched.exists():
        raise ValueError(f"dev set {name!r} is not fetched (no {fetched}): run `data fetch` or pass a file")
    return _path(str(fetched))


Existing = Annotated[str, AfterValidator(_existing)]  # a path if there is one, else a hub name
FilePath = Annotated[str, AfterValidator(_path)]
ScoredPairs = Annotated[str, AfterValidator(_scored_pairs)]  # a file, or a fetched dev set by name
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Count = Annotated[int, Field(le=10**12)]
Correlation = Annotated[float, Field(ge=-1, le=1)]
Power = Annotated[float, Field(ge=-2, le=2)]
Automatic = bool | Literal["auto"]


def setting(
    default: Any, help: str, group: str, *, common: bool = False, by_method: bool = False, **bounds: Any
) -> Any:
    """Declare a setting.

    :param common: Show it in the short help.
    :param by_method: Methods have their own defaults.
    :param bounds: ``ge``, ``gt``, ``le`` or ``lt``.
    """
    about: Any = {"group": group, "common": common, "by_method": by_method}
    return Field(default, description=help, json_schema_extra=about, **bounds)


def show_defaults(default: Any, others: Mapping[str, Any]) -> list[str]:
    """Return a default and the named choices that replace it, for help and documentation."""
    texts = [_text(default), *(f"{name}: {_text(value)}" for name, value in others.items())]
    return [text for text in texts if text]


def _text(value: Any) -> str:
    if isinstance(value, list | dict):
        return ", ".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)


class RunSettings(Settings):
    """The settings of every training: data, loop and machine."""

    file: ClassVar[str] = "train.yaml"  # in a run's folder

    corpus: Existing = setting("", "File or folder of sentences; empty for sentences in memory.", DATA)
    output: FilePath = setting("", "Folder to write.", DATA)
    column: str = setting("", "Column or key of the sentences, if there are several.", DATA, common=True)
    delimiter: str = setting("", "Delimiter of a CSV file; detected by default.", DATA)
    no_header: bool = setting(False, "The CSV file has no header row.", DATA)
    split: str = setting("", "Split long texts: sentences, or sentences:de for another language.", DATA)
    dev: list[ScoredPairs] = setting(
        [],
        "Scored or yes/no pairs (file, stsb, sickr) for choosing the weights. Repeatable.",
        DATA,
        common=True,
    )

    seed: Seed = setting(42, "Random seed for initialization, data order and dropout.", TRAINING, common=True)
    epochs: float = setting(1.0, "Passes over the sentences.", TRAINING, by_method=True, common=True, gt=0)
    max_steps: Count = setting(0, "Maximum number of steps; 0 for no limit.", TRAINING, common=True, ge=0)
    batch_size: Count = setting(64, "Sentences per step.", TRAINING, by_method=True, common=True, ge=2)
    gradient_accumulation: Count = setting(1, "Batches accumulated per optimizer step.", TRAINING, ge=1)
    learning_rate: float = setting(
        3e-5,
        "Peak learning rate; decays linearly to 0.",
        TRAINING,
        by_method=True,
        common=True,
        gt=0,
    )
    weight_decay: float = setting(0.0, "Weight decay of AdamW.", TRAINING, by_method=True, ge=0)
    warmup_steps: float = setting(
        0.0, "Warm-up steps; below 1, a share of all steps.", TRAINING, by_method=True, ge=0
    )
    max_grad_norm: float = setting(1.0, "Gradients are clipped to this norm.", TRAINING, gt=0)
    max_length: Count = setting(
        32, "Maximum tokens per sentence in training.", TRAINING, by_method=True, ge=3
    )
    precision: Literal["fp32", "fp16", "bf16"] = setting(
        "fp16", "fp16, bf16 or fp32; always fp32 on a CPU.", TRAINING, by_method=True
    )

    logging_steps: Count = setting(10, "Steps between log entries.", RUNNING, ge=1)
    eval_steps: Count = setting(
        125, "Steps between evaluations; the best weights are kept.", RUNNING, by_method=True, ge=1
    )
    patience: Count = setting(
        0, "Evaluations without a gain before training stops; 0 never stops.", RUNNING, by_method=True, ge=0
    )
    save_steps: Count = setting(500, "Steps between checkpoints.", RUNNING, ge=1)
    report_to: list[str] = setting([], "Also log to tensorboard, trackio or wandb. Repeatable.", RUNNING)
    workers: Count = setting(-1, "Data loading processes; -1 for automatic.", RUNNING, ge=-1)
    device: str = setting("auto", "auto, cpu or cuda.", RUNNING, common=True)

    @property
    def reading(self) -> ReadOptions:
        """How the corpus is read."""
        header = False if self.no_header else None
        return ReadOptions(
            self.column or None, delimiter=self.delimiter or None, header=header, split=self.split or None
        )

    @property
    def torch_device(self) -> str | None:
        """The device for torch; None for automatic."""
        return None if self.device == "auto" else self.device

    @classmethod
    def by_group(cls) -> list[str]:
        """Return the names of all settings, group by group."""
        fields: Any = cls.model_fields
        return sorted(fields, key=lambda name: _GROUPS.index(fields[name].json_schema_extra["group"]))


@dataclass(frozen=True)
class GivenSettings:
    """The settings that a user gave, validated, without defaults."""

    values: Mapping[str, Any]

    @property
    def draft(self) -> RunSettings:
        """The settings that do not depend on a model."""
        raise NotImplementedError

    @property
    def folder(self) -> Path:
        """The folder to write."""
        if "output" not in self.values:
            raise InputError("no output folder: set `output`")
        from rankencoder.io.storage import check_local  # loads numpy, which --help does not need

        check_local(self.values["output"])
        return Path(self.values["output"])


def is_in_memory(corpus: Any) -> bool:
    """Return whether a corpus is the sentences themselves, not a file or folder."""
    return corpus is not None and not isinstance(corpus, (str, Path))
