"""One model on all sets, section by section."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rankencoder.blend import blend_vectors
from rankencoder.encoders import unit
from rankencoder.errors import InputError
from rankencoder.evaluation.choice import choose_similarity
from rankencoder.evaluation.cost_figures import measure_cost
from rankencoder.evaluation.curve_figures import power_curve, rank_weight_curve, reference_size_curve
from rankencoder.evaluation.halves import half_advice, score_half_matching
from rankencoder.evaluation.pair_groups import most_changed, shared_neighbours, similar_pairs
from rankencoder.evaluation.results import Result, with_transfer_average
from rankencoder.evaluation.space_figures import describe_space, draw_map
from rankencoder.evaluation.sts_figures import score_sts
from rankencoder.evaluation.transfer import score_transfer
from rankencoder.progress import Progress

if TYPE_CHECKING:
    from rankencoder.evaluation.sts_data import PairSet
    from rankencoder.evaluation.subjects import Model, Subject
    from rankencoder.evaluation.transfer_data import TransferTask


@dataclass
class Measurement:
    """A model to measure, the sets that it is scored on, and those of them that are the user's own."""

    model: Model
    sets: list[PairSet]
    own: list[PairSet]
    projection: str
    progress: bool

    def take(self, sections: Sequence[str]) -> Result:
        """Measure the sections that are asked for; everything but transfer rests on the STS scores."""
        if not self.sets or not sections:
            return {}
        result: Result = {"sts": score_sts(self.model, self.sets, progress=self.progress)}
        for name in sections:
            if name == "space":
                result[name] = self._space()
            elif name == "similar-pairs":
                result[name] = self._similar_pairs(result)
            elif name == "cost":
                texts = self._main.sentences
                result[name] = {s.role: measure_cost(s, texts) for s in self.model.subjects}
            elif name == "choice" and not self._selection:
                result[name] = {}
            elif name != "sts":
                measure = getattr(self, f"_{name}")
                result[name] = {s.role: measure(s, result) for s in self.model.subjects if s.form is not None}
        return result

    @property
    def _main(self) -> PairSet:
        """The set that is looked at more closely: STS-B, as in the paper, or the first there is."""
        by_name = {pair_set.name: pair_set for pair_set in self.sets}
        return by_name.get("STS-B") or (self.own or self.sets)[0]

    @property
    def _selection(self) -> list[PairSet]:
        """The sets that something may be chosen on: the user's own, or STS-B dev."""
        return self.own or [pair_set for pair_set in self.sets if pair_set.name == "STS-B dev"]

    def _similarities(self, subject: Subject, kind: str, result: Result) -> dict[str, np.ndarray]:
        system = result["sts"][subject.similarity_names()[kind]]
        return {name: np.array(values) for name, values in system["similarities"].items()}

    def _space(self) -> dict[str, Any]:
        close = [s for s in self.sets if s.name in ("STS-B", "STS-B dev") or s in self.own] or [self._main]
        subjects = self.model.subjects
        return {s.name: {subject.role: describe_space(subject, s) for subject in subjects} for s in close}

    def _similar_pairs(self, result: Result) -> dict[str, Any]:
        found = {}
        for s in self.sets:
            systems = {name: np.array(sys_["similarities"][s.name]) for name, sys_ in result["sts"].items()}
            found[s.name] = similar_pairs(s, systems)
        return found

    def _neighbours(self, subject: Subject, result: Result) -> dict[str, Any]:
        name = self._main.name
        cosine, ranks = (self._similarities(subject, kind, result)[name] for kind in ("cosine", "ranks"))
        return {"set": name, **shared_neighbours(subject, self._main, cosine, ranks)}

    def _curves(self, subject: Subject, result: Result) -> dict[str, Any]:
        cosine, ranks = (self._similarities(subject, kind, result) for kind in ("cosine", "ranks"))
        close = (self._selection or [self._main])[0]
        return {
            "rank-weight": rank_weight_curve(self.sets, cosine, ranks),
            "power": power_curve(subject, self.sets),
            "reference-size": reference_size_curve(subject, close),
        }

    def _choice(self, subject: Subject, _: Result) -> dict[str, Any]:
        """Return which similarity to use; only a sentence with the reason where none can be chosen."""
        assert subject.form is not None
        pairs = {pair_set.name: pair_set.pairs for pair_set in self._selection}
        try:
            return choose_similarity(subject.encoder, subject.form, subject.rank_weight, pairs).to_dict()
        except InputError as error:
            return {"sentence": f"Nothing was chosen. {error}"}

    def _advice(self, subject: Subject, _: Result) -> dict[str, Any]:
        """Say what can be said without labels."""
        assert subject.form is not None
        halves = score_half_matching(subject.encoder, subject.sentences, subject.form.reference)
        return {"halves": halves and halves.to_dict(), "sentence": half_advice(halves)}

    def _changed(self, subject: Subject, result: Result) -> dict[str, Any]:
        name = self._main.name
        cosine, ranks = (self._similarities(subject, kind, result)[name] for kind in ("cosine", "ranks"))
        return {"set": name, "ranks": most_changed(self._main, cosine, ranks)}

    def _map(self, subject: Subject, _: Result) -> dict[str, Any]:
        return {"set": self._main.name, **draw_map(subject, self._main, self.projection)}

    def transfer(self, tasks: Sequence[TransferTask]) -> dict[str, Any]:
        """Train classifiers on the encoder's own vectors and, for a RankEncoder, on the blended ones.

        The exact form's are too long for that; of a training, as in the paper, E1 and E2 are what counts.
        """
        found = {}
        for subject in self.model.subjects:
            names = subject.similarity_names()
            form = subject.form
            blended = form is not None and form.name != "exact" and not subject.role
            for kind in ("cosine", "blend") if blended else ("cosine",):
                encode = partial(_vectors, subject, blended=kind == "blend", progress=self.progress)
                scores = {}
                bar = Progress(len(tasks), desc=names[kind], unit="tasks", show=self.progress)
                for task in bar.over(tasks):
                    scores[task.name] = score_transfer(task, encode, device=subject.encoder.device)
                found[names[kind]] = with_transfer_average(scores)
        return {
            "systems": found,
            "data": {t.name: {"fingerprint": t.fingerprint, "notes": list(t.warnings)} for t in tasks},
        }


def _vectors(subject: Subject, texts: list[str], *, blended: bool, progress: bool) -> torch.Tensor:
    raw = subject.encoder.raw(texts, progress=progress)
    if not blended or subject.form is None:
        return raw
    base = unit(raw)
    return blend_vectors(subject.form(base), base, subject.rank_weight)
