"""What the tests of the losses have in common: the specification's numbers and formulas by hand."""

import numpy as np
import torch
from scipy.special import logsumexp

MASKED = ("bert", "roberta", "distilbert", "modernbert")
SENTENCES = [
    "A cat sleeps on the warm windowsill.",
    "The river moves.",
    "Is it here?",
    "The Cat sees the DOG.",
]

# section 9.8 of the specification
CORPUS = torch.tensor([[1, 0], [0, 1], [-1, 0], [0, -1], [0.6, 0.8]])
BATCH = torch.tensor([[0.8, 0.6], [0.28, 0.96], [-0.6, 0.8]])
RANKS = [[3, 2, 0, 1, 4], [2, 4, 1, 0, 3], [1, 4, 3, 0, 2]]
TARGETS = torch.tensor([[1, 0.6, -0.1], [0.6, 1, 0.7], [-0.1, 0.7, 1]])
COSINES = torch.tensor([[0.95, 0.40, 0.10], [0.35, 0.90, 0.55], [0.05, 0.50, 0.92]])


def numbers(generator, *shape):
    return torch.from_numpy(np.random.default_rng(generator).normal(size=shape)).float()


def cosines_by_hand(a, b):
    a, b = (np.asarray(rows, dtype=np.float64) for rows in (a, b))
    return (a @ b.T) / np.outer(np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1))


def info_nce_by_hand(cosines, temperature=0.05):
    return float(np.mean(logsumexp(cosines / temperature, axis=1) - np.diagonal(cosines) / temperature))
