"""What the report shows by itself: each encoder of each model, with all runs that differ only in seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from rankencoder.evaluation.results import Result, Row, rows
from rankencoder.evaluation.sts_data import DEV, SEVEN
from rankencoder.report.document import clean

ROLES = {
    ("E1", "cosine"): "E1: the base encoder",
    ("E1", "ranks"): "E1 ranks: RankEncoder without training",
    ("E2", "cosine"): "E2: retrained",
    ("E2", "blend"): "E2 blend: retrained, weighted inference",
}
"""What the paper calls the systems of a training run."""


@dataclass(frozen=True)
class View:
    """An encoder of one model, or of several runs of one configuration.

    :param label: The model's name.
    :param role: "E1" or "E2" of a training run, otherwise empty.
    :param members: The results of its runs.
    :param rows: Its similarities: "cosine" and, with a reference corpus, "ranks" and "blend".
    :param is_alone: Whether the report is about nothing else.
    """

    label: str
    role: str
    members: tuple[Result, ...]
    rows: dict[str, Row]
    is_alone: bool = False

    @property
    def name(self) -> str:
        """What to call it."""
        return f"{self.label}, {self.role}" if self.role else self.label

    @property
    def title(self) -> str:
        """What to write above its part of a figure."""
        return "" if self.is_alone else self.name

    def tell(self, text: str) -> str:
        """Return a sentence about it; its name only where there are others."""
        return text[:1].upper() + text[1:] if self.is_alone else f"{self.name}: {text}"

    @property
    def is_ranked(self) -> bool:
        """Whether there is a reference corpus, and so more than cosine."""
        return "ranks" in self.rows

    def similarity(self, kind: str) -> str:
        """Return what to call a kind of similarity: cosine, ranks (or power …), blend 0.1."""
        row = self.rows.get(kind)
        name = kind if row is None else row.system.removeprefix(self.role).strip()
        return clean(name).replace("-", "−")

    def does(self, kind: str, many: str, one: str) -> str:
        """Return a similarity and what it does: ranks do, a power or a blend does."""
        name = self.similarity(kind)
        return f"{name} {many if name == 'ranks' else one}"

    @property
    def vectors(self) -> str:
        """What to call the vectors of the rank part."""
        name = self.similarity("ranks")
        return "rank vectors" if name == "ranks" else f"{name} vectors"

    @property
    def run(self) -> str:
        """What to add where only one of several runs is shown."""
        return "" if len(self.members) == 1 else " (first run)"

    def system(self, kind: str) -> str:
        """Return the same for a table of all systems of a model."""
        return ROLES.get((self.role, kind)) or f"{self.role} {self.similarity(kind)}".strip()

    def parts(self, section: str) -> list[Any]:
        """Return this encoder's part of a section, of each run that has it."""
        found = [(member.get(section) or {}).get(self.role) for member in self.members]
        return [part for part in found if part]

    @property
    def about(self) -> str:
        """What it is, in short."""
        subjects: list[dict[str, Any]] = self.members[0]["model"]["subjects"]
        subject = next(subject for subject in subjects if subject["role"] == self.role)
        told = [self.name]
        encoder = "/".join(clean(subject["encoder"]).rstrip("/").split("/")[-2:])
        told += [encoder] if encoder != self.label else []
        if subject.get("dimension"):
            told.append(f"{subject['dimension']:,} numbers a sentence")
        if "reference" in subject:
            told.append(f"{subject['reference']['size']:,} reference sentences")
        return " · ".join(told)


def views(results: Sequence[Result], aggregation: str) -> list[View]:
    """Return all encoders, in the order of the results."""
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result["model"]["group"], []).append(result)
    labels = _labels(list(groups.values()), aggregation)
    found = []
    for members, label in zip(groups.values(), labels, strict=True):
        table = rows(members, aggregation)
        for subject in members[0]["model"]["subjects"]:
            role = subject["role"]
            scored = [system for member in members for system in (member.get("sts") or {}).items()]
            systems = [name for name, system in scored if system["encoder"] == role]
            own = {row.kind: row for row in table if row.system in systems}
            found.append(View(label, role, tuple(members), own))
    return [replace(found[0], is_alone=True)] if len(found) == 1 else found


def _labels(groups: list[list[Result]], aggregation: str) -> list[str]:
    """Name the models; those of one name by their fingerprints too."""
    found = []
    for members in groups:
        table = rows(members, aggregation)
        found.append(clean(table[0].label if table else members[0]["model"]["label"]) or "model")
    return [
        label if found.count(label) == 1 else f"{label} ({members[0]['model']['fingerprint'][:8]})"
        for label, members in zip(found, groups, strict=True)
    ]


def set_order(names: Sequence[str]) -> list[str]:
    """Order sets as the field does: the seven, other sets, sets for choosing."""
    known = [name for name in SEVEN if name in names]
    return [
        *known,
        *(name for name in names if name not in (*SEVEN, *DEV)),
        *(name for name in DEV if name in names),
    ]
