"""What the examples in docstrings take for granted."""

import warnings
from string import ascii_lowercase

import pytest

_ANIMALS = ("cat", "dog", "horse", "mouse", "whale", "falcon")


def _count_letters(texts):
    return [[1 + text.lower().count(letter) for letter in ascii_lowercase] for text in texts]


@pytest.fixture(autouse=True)
def _names(request, doctest_namespace, tmp_path):
    """Give the examples of `train`, `distill` and `evaluate` what they need."""
    if request.node.name == "rankencoder.evaluation.evaluator.evaluate":
        doctest_namespace.update(folder=tmp_path)
    if request.node.name == "rankencoder.distillation.distiller.distill":
        corpus = [f"A {a} sees {n} {b}s." for a in _ANIMALS for b in _ANIMALS for n in range(20)]
        doctest_namespace.update(corpus=corpus, encoder=_count_letters, folder=tmp_path)
    if request.node.name == "rankencoder.training.run.train":
        from tiny_backbones import masked_language_model

        from rankencoder.errors import TrainingWarning

        warnings.simplefilter("ignore", TrainingWarning)
        corpus = tmp_path / "corpus.txt"
        corpus.write_text("".join(f"A cat sees {i} dogs.\n" for i in range(1200)))
        backbone = masked_language_model(tmp_path / "tiny-bert")
        doctest_namespace.update(corpus=corpus, backbone=str(backbone), folder=tmp_path)
