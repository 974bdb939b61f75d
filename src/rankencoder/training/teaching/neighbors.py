"""Batches of near neighbours: random ones hold few pairs that are similar enough to learn from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sentence_transformers.base.sampler import DefaultBatchSampler

if TYPE_CHECKING:
    from datasets import Dataset

    from rankencoder.training.config import TrainConfig
    from rankencoder.training.teaching.targets import Targets

_CHUNK = 2**28  # cosines at a time
_LOOKED_AT = 20  # batches
_SPARE = 4
"""So many times as many neighbours are looked at as are wanted: some will be in other batches already."""


def nearest_rows(
    teachers: Sequence[np.ndarray], k: int, *, device: str | torch.device, progress: bool = False
) -> np.ndarray:
    """Return the rows of the nearest neighbours of each sentence, nearest first.

    Each is compared with all others; on a GPU in half precision, which cannot tell the very nearest apart.

    :param teachers: Unit vectors of the sentences; with several teachers their mean cosine decides.
    :param k: How many; fewer where there are not as many other sentences.
    :return: ``[number, k]``; a sentence is none of its own neighbours.

    >>> angles = np.array([0.0, 0.1, 0.3, 2.0, 2.1])
    >>> nearest_rows([np.stack([np.cos(angles), np.sin(angles)], axis=1)], 2, device="cpu").tolist()
    [[1, 2], [0, 2], [1, 0], [4, 2], [3, 2]]
    """
    from tqdm.auto import tqdm

    number = len(teachers[0])
    k = min(k, number - 1)
    half = torch.device(device).type == "cuda"  # CPUs do not gain by it
    dtype = torch.float16 if half else torch.float32
    tables = [torch.tensor(np.asarray(table), dtype=dtype, device=device) for table in teachers]
    found = np.empty((number, k), dtype=np.int32)
    step = max(1, _CHUNK // number)
    for start in tqdm(range(0, number, step), desc="Neighbours", unit=" parts", disable=not progress):
        rows = slice(start, min(start + step, number))
        cosines = tables[0][rows] @ tables[0].T
        for table in tables[1:]:
            cosines.addmm_(table[rows], table.T)
        cosines.diagonal(offset=start).fill_(-torch.inf)
        found[rows] = cosines.topk(k, dim=1).indices.cpu().numpy()
    return found


def wanted(neighbors: int) -> int:
    """Return how many neighbours to look up for batches with so many of them."""
    return _SPARE * neighbors


def pairs_per_batch(targets: Targets, config: TrainConfig, *, device: str | torch.device) -> dict[str, float]:
    """Return how many pairs pass the filter in a batch drawn at random and in one with neighbours.

    :param targets: With neighbours.
    :return: Means over a few batches of an epoch. (Its last ones hold fewer neighbours than its first.)
    """
    from datasets import Dataset

    from rankencoder.training.losses.formulas import select_pairs
    from rankencoder.training.teaching.targets import TeacherSimilarity

    assert targets.neighbors is not None
    references = [torch.from_numpy(reference) for reference in targets.references]
    similarity = TeacherSimilarity(references, config.target).to(device)
    rows = Dataset.from_dict({"row": range(len(targets.neighbors))})
    found = {}
    for name, neighbors in (("random", 0), ("neighbors", config.neighbors)):
        sampler = NeighborBatchSampler(
            rows,
            nearest=targets.neighbors,
            neighbors=neighbors,
            batch_size=int(config.batch_size or 0),
            drop_last=True,
            generator=torch.Generator(),
            seed=int(config.stage2_seed or 0),
        )
        batches = list(sampler)
        counts = []
        for batch in batches[:: max(1, len(batches) // _LOOKED_AT)]:
            vectors = [torch.from_numpy(np.asarray(table[batch])).to(device) for table in targets.teachers]
            lower, upper = float(config.lower or 0), float(config.upper or 0)
            counts.append(float(select_pairs(similarity(vectors), lower, upper, "never").sum()))
        found[name] = sum(counts) / max(1, len(counts))
    return found


class NeighborBatchSampler(DefaultBatchSampler):
    """Draws sentences at random, and puts near neighbours that are not drawn yet into the same batch.

    Each sentence is drawn once an epoch, as it is without neighbours.

    :param nearest: The rows of each sentence's neighbours, nearest first.
    :param neighbors: How many of them to put beside a sentence.
    """

    def __init__(self, dataset: Dataset, *, nearest: np.ndarray, neighbors: int, **kwargs: Any) -> None:
        super().__init__(dataset, **kwargs)
        self.nearest = nearest
        self.neighbors = neighbors

    def __iter__(self) -> Iterator[list[int]]:
        """Yield the rows of each batch."""
        if self.generator is not None:
            self.generator.manual_seed(self.seed + self.epoch)
        order = torch.randperm(len(self.nearest), generator=self.generator).tolist()
        taken = np.zeros(len(order), dtype=bool)
        batch: list[int] = []
        for first in order:
            if taken[first]:
                continue
            near = self.nearest[first]
            room = min(self.neighbors, self.batch_size - len(batch) - 1)
            group = [first, *near[~taken[near]][:room].tolist()]
            taken[group] = True
            batch += group
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        """Return the number of batches."""
        number = len(self.nearest)
        return number // self.batch_size if self.drop_last else -(-number // self.batch_size)
