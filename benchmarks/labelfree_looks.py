"""A look at an encoder in training: its scores on labelled pairs, and all that can be seen without labels.

`Recorder` stands in the place of the evaluator on dev pairs. Texts are turned into tokens once, so that a
look costs little. The cosines of fixed pairs are kept too: agreement between runs is computed of them later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from typing import Any, cast

import numpy as np
import torch
from labelfree_sample import GRAM, Sample
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.evaluation import SentenceEvaluator
from torch import nn
from torch.nn import functional
from vector_spaces import alignment, uniformity

from rankencoder.evaluation.statistics import spearman
from rankencoder.evaluation.sts_data import PairSet
from rankencoder.io.pairs import read_scored_pairs

DROPOUT = 0.1  # of the two views; some methods train without
VIEWS = 500  # sentences that are read under dropout, twice
TEMPERATURE = 0.05
BATCH = 1024

Cosines = dict[str, np.ndarray]


class Texts:
    """Texts as batches of tokens on the model's device, from short to long."""

    def __init__(self, model: SentenceTransformer, texts: list[str]) -> None:
        self.order = np.argsort([len(text) for text in texts], kind="stable")
        parts = np.array_split(self.order, max(1, -(-len(texts) // BATCH)))
        self.batches = [self._tokens(model, [texts[i] for i in part]) for part in parts]

    def _tokens(self, model: SentenceTransformer, texts: list[str]) -> dict[str, Any]:
        found = model.preprocess(texts)
        return {
            name: value.to(model.device) if torch.is_tensor(value) else value for name, value in found.items()
        }

    @torch.no_grad()
    def encode(self, model: SentenceTransformer) -> torch.Tensor:
        """Return the unit vectors of the texts, in their order, on the device."""
        device, backbone = model.device.type, cast(Any, model[0]).model
        dtype = torch.float16 if backbone.config.model_type == "bert" else torch.bfloat16
        with torch.autocast(device, dtype, enabled=device == "cuda", cache_enabled=False):
            parts = [model(dict(batch))["sentence_embedding"].float() for batch in self.batches]
        vectors = functional.normalize(torch.cat(parts), dim=1)
        order = torch.from_numpy(self.order).to(vectors.device)
        return torch.empty_like(vectors).index_copy_(0, order, vectors)


class Recorder(SentenceEvaluator):
    """Looks at the model whenever the trainer evaluates; the trainer's score is the first dev file's.

    :param dev: Files of scored pairs by name.
    :param pairs: The first so many of each.
    :param tests: Sets whose average is recorded at each look, and chosen by nowhere.
    """

    metric, pairs = "Spearman", "scored dev pairs"

    def __init__(
        self, sample: Sample, dev: dict[str, Path], pairs: int | None = None, tests: Sequence[PairSet] = ()
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sample, self.tests = sample, tests
        self.dev = {name: read_scored_pairs(path)[:pairs] for name, path in dev.items()}
        self.looks: list[dict[str, Any]] = []
        self.cosines: list[Cosines] = []
        self.weights: list[dict[str, torch.Tensor]] = []
        self.texts: Texts | None = None

    def __call__(self, model: Any, output_path: Any = None, epoch: Any = -1, steps: int = -1) -> Any:
        """Look, and remember the weights."""
        self.model = model
        self.look(model, f"step {steps}", step=steps)
        self.weights.append(
            {name: value.detach().to(torch.float16, copy=True) for name, value in trained(model)}
        )
        return {"sequential_score": self.looks[-1]["dev"][next(iter(self.dev))]}

    def look(self, model: SentenceTransformer, name: str, **about: Any) -> None:
        """Score the model, and describe it without labels."""
        training = model.training
        model.eval()
        if self.texts is None:
            self._prepare(model)
        assert self.texts is not None
        parts = self.texts.encode(model).split(list(self.sizes.values()))
        vectors = dict(zip(self.sizes, parts, strict=True))
        with dropout(model) as active:
            views = [self.read_twice.encode(model) for _ in range(2)] if active else []
        model.train(training)
        cosines = pair_cosines(vectors)
        dev = {
            key: spearman([pair.score for pair in pairs], cosines[f"dev {key}"])
            for key, pairs in self.dev.items()
        }
        proxies = {**text_proxies(vectors, cosines, self.sample), **space_proxies(vectors["plain"])}
        proxies |= self._agreements(cosines) | (view_proxies(*views) if views else {})
        mean, deviation = cosines["gram"].mean(), cosines["gram"].std()
        proxies["cosine_spread"] = deviation
        rounded = {key: round(float(value), 5) for key, value in proxies.items()}
        tests = [
            spearman(test.gold, pair_products(vectors[f"test {test.name}"]).numpy()) for test in self.tests
        ]
        average = {"AVG": fmean(tests)} if tests else {}
        self.looks.append({"name": name, **about, "dev": dev, **average, "proxies": rounded})
        standard = {
            key: (value - mean) / deviation for key, value in cosines.items()
        }  # half precision is coarse
        self.cosines.append({key: value.astype(np.float16) for key, value in standard.items()})

    def _prepare(self, model: SentenceTransformer) -> None:
        texts = dict(self.sample.texts)
        for key, pairs in self.dev.items():
            texts[f"dev {key}"] = [pair.a for pair in pairs] + [pair.b for pair in pairs]
        for test in self.tests:
            texts[f"test {test.name}"] = [pair.a for pair in test.pairs] + [pair.b for pair in test.pairs]
        self.sizes = {key: len(value) for key, value in texts.items()}
        self.texts = Texts(model, [text for value in texts.values() for text in value])
        self.read_twice = Texts(model, texts["plain"][:VIEWS])
        self.words = word_cosines(model, self.sample)

    def _agreements(self, cosines: Cosines) -> dict[str, float]:
        """Compare cosines with those by words: of tf-idf, and of the backbone's own embeddings of words."""
        return {
            f"{what}_{pairs}": spearman(table[pairs], cosines[pairs])
            for what, table in (("tfidf", self.sample.lexical), ("words", self.words))
            for pairs in ("gram", "near")
        }

    def look_at_averages(self) -> None:
        """Look at averages of the weights of earlier looks; the model keeps the last of them."""
        for name, shares in averages(len(self.weights)).items():
            with torch.no_grad():
                for key, value in trained(self.model):
                    rows = torch.stack([weights[key].float() for weights in self.weights])
                    by = torch.tensor(shares, device=rows.device, dtype=rows.dtype)
                    value.copy_(torch.tensordot(by, rows, dims=1))
            self.look(self.model, name)


def trained(model: nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the weights that training changes, by name."""
    return ((name, value) for name, value in model.named_parameters() if value.requires_grad)


def averages(looks: int) -> dict[str, list[float]]:
    """Return weighted means over the weights of the start and of the later looks, by name.

    >>> {name: [round(share, 2) for share in shares] for name, shares in averages(3).items()}["mean of all"]
    [0.0, 0.5, 0.5]
    """
    rows = np.arange(looks)

    def mean(chosen: np.ndarray) -> np.ndarray:
        return np.asarray(chosen / chosen.sum())

    def with_start(share: float) -> np.ndarray:
        return np.asarray((1 - share) * (rows == looks - 1) + share * (rows == 0))

    decay = {d: mean((rows > 0) * d ** (looks - 1.0 - rows)) for d in (0.8, 0.9)}
    found = {
        "mean of all": mean(rows > 0),
        "mean of last half": mean(rows > (looks - 1) / 2),
        "mean of last third": mean(rows > 2 * (looks - 1) / 3),
        "moving average 0.8": decay[0.8],
        "moving average 0.9": decay[0.9],
        **{f"last with {share:g} of the start": with_start(share) for share in (0.25, 0.5, 0.75)},
    }
    return {name: shares.astype(float).tolist() for name, shares in found.items()}


@contextmanager
def dropout(model: nn.Module) -> Iterator[bool]:
    """Turn dropout on; say whether there is any to turn on."""
    layers = [module for module in model.modules() if isinstance(module, nn.Dropout)]
    before = [layer.p for layer in layers]
    try:
        for layer in layers:
            layer.p = DROPOUT
            layer.train()
        attention = [m for m in model.modules() if isinstance(getattr(m, "dropout", None), nn.Dropout)]
        for module in attention:  # its own mode decides whether attention drops
            module.training = True
        yield bool(layers)
    finally:
        for layer, p in zip(layers, before, strict=True):
            layer.p = p
        model.eval()


def pair_cosines(vectors: dict[str, torch.Tensor]) -> Cosines:
    """Return the cosines of the pairs whose similarity is kept, of each kind."""
    plain = vectors["plain"]
    others = plain.roll(len(plain) // 2, 0)
    pairs = {
        "near": (plain, vectors["near"]),
        "halves": (vectors["first"], vectors["second"]),
        "other halves": (vectors["first"], vectors["second"].roll(1, 0)),
        "dropped": (plain, vectors["dropped"]),
        "mixed": (plain, vectors["mixed"]),
        "mixed in": (others, vectors["mixed"]),
    }
    found = {name: (a * b).sum(1).cpu().numpy() for name, (a, b) in pairs.items()}
    gram = (plain[:GRAM] @ plain[:GRAM].T).cpu().numpy()
    found["gram"] = gram[np.triu_indices(len(gram), 1)]
    for name, value in vectors.items():
        if name.startswith("dev "):
            found[name] = pair_products(value).numpy()
    return found


def pair_products(vectors: torch.Tensor) -> torch.Tensor:
    """Return the cosines of the first half's unit vectors with the second half's."""
    a, b = vectors.chunk(2)
    return (a * b).sum(1).cpu()


def text_proxies(vectors: dict[str, torch.Tensor], cosines: Cosines, sample: Sample) -> dict[str, float]:
    """Return how well an encoder knows what belongs together, in texts that were made of one sentence."""
    found: dict[str, float] = {}
    for name, a, b in (
        ("halves", vectors["first"], vectors["second"]),
        ("dropped", vectors["plain"], vectors["dropped"]),
    ):
        table = a @ b.T
        found |= {f"{name}_{key}": value for key, value in matching(table).items()}
    related = np.repeat([1.0, 0.0], len(cosines["halves"]))
    found["halves_spearman"] = spearman(related, np.concatenate([cosines["halves"], cosines["other halves"]]))
    kept = np.array(sample.kept)
    both = np.concatenate([kept, 1 - kept])
    found["mixed_spearman"] = spearman(both, np.concatenate([cosines["mixed"], cosines["mixed in"]]))
    found["mixed_accuracy"] = float(((cosines["mixed"] > cosines["mixed in"]) == (kept > 0.5)).mean())
    order = np.concatenate([cosines["gram"][: len(kept)], cosines["near"], cosines["dropped"]])
    found["graded_spearman"] = spearman(np.repeat([0.0, 1.0, 2.0], len(kept)), order)
    return found


def matching(table: torch.Tensor) -> dict[str, float]:
    """Describe a table of cosines whose diagonal should be the largest of each row and column."""
    positive = table.diagonal()
    ranks = torch.cat([(table > positive[:, None]).sum(1), (table > positive).sum(0)]) + 1.0
    itself = torch.arange(len(table), device=table.device)
    logits = table / TEMPERATURE
    losses = [functional.cross_entropy(rows, itself) for rows in (logits, logits.T)]
    others = table[~torch.eye(len(table), dtype=torch.bool, device=table.device)]
    return {
        "mrr": (1 / ranks).mean().item(),
        "first": (ranks == 1).float().mean().item(),
        "loss": torch.stack(losses).mean().item(),
        "margin": ((positive.mean() - others.mean()) / others.std()).item(),
        "alignment": (2 - 2 * positive.mean()).item(),
    }


def space_proxies(vectors: torch.Tensor) -> dict[str, float]:
    """Describe the space of unit vectors, by eigenvalues: a GPU finds them sooner than singular values."""
    rows = vectors.double()
    mean = rows.mean(0)
    variances = _shares(torch.linalg.eigvalsh((rows - mean).T @ (rows - mean)))
    singular = _shares(torch.linalg.eigvalsh(rows.T @ rows).clamp_min(0).sqrt())
    return {
        "uniformity": uniformity(vectors),
        "effective_rank": _entropy(variances).exp().item(),
        "first_share": variances[-1].item(),
        "first_ten_share": variances[-10:].sum().item(),
        "mean_norm": mean.norm().item(),
        "rankme": _entropy(singular).exp().item(),
    }


def _shares(values: torch.Tensor) -> torch.Tensor:
    return values.clamp_min(0) / values.clamp_min(0).sum()


def _entropy(shares: torch.Tensor) -> torch.Tensor:
    return -(shares * shares.clamp_min(1e-300).log()).sum()


def view_proxies(a: torch.Tensor, b: torch.Tensor) -> dict[str, float]:
    """Compare two views of the same sentences under dropout."""
    table = a @ b.T
    upper = np.triu_indices(GRAM, 1)
    similarities = [(v[:GRAM] @ v[:GRAM].T).cpu().numpy()[upper] for v in (a, b)]
    return {
        "views_spearman": spearman(*similarities),
        "views_alignment": alignment(a, b),
        "views_loss": matching(table)["loss"],
    }


@torch.no_grad()
def word_cosines(model: SentenceTransformer, sample: Sample) -> Cosines:
    """Return cosines of the weighted means of words (Arora et al.), by the embeddings before training."""
    embed = cast(Any, model[0]).model.get_input_embeddings()
    plain, near = sample.texts["plain"], sample.texts["near"]
    ids = [model.tokenizer(text, add_special_tokens=False)["input_ids"] for text in [*plain, *near]]
    flat = torch.tensor([token for row in ids for token in row])
    shares = torch.bincount(flat).double() / len(flat)
    rows = []
    for row in ids:
        tokens = torch.tensor(row)
        weights = (1e-3 / (1e-3 + shares[tokens])).float().to(model.device)
        rows.append((embed(tokens.to(model.device)).float() * weights[:, None]).mean(0))
    vectors = torch.stack(rows)
    vectors = functional.normalize(vectors - vectors.mean(0), dim=1)
    a, b = vectors.split([len(plain), len(near)])
    gram = (a[:GRAM] @ a[:GRAM].T).cpu().numpy()
    return {"near": (a * b).sum(1).cpu().numpy(), "gram": gram[np.triu_indices(len(gram), 1)]}
