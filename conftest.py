"""What the examples in docstrings take for granted."""

import warnings

import pytest


@pytest.fixture(autouse=True)
def _names(request, doctest_namespace, tmp_path):
    """Give the examples of `train` and `evaluate` what they need."""
    if request.node.name == "rankencoder.evaluation.evaluator.evaluate":
        doctest_namespace.update(folder=tmp_path)
    if request.node.name == "rankencoder.training.run.train":
        from tiny_backbones import masked_language_model

        from rankencoder.errors import TrainingWarning

        warnings.simplefilter("ignore", TrainingWarning)
        corpus = tmp_path / "corpus.txt"
        corpus.write_text("".join(f"A cat sees {i} dogs.\n" for i in range(1200)))
        backbone = masked_language_model(tmp_path / "tiny-bert")
        doctest_namespace.update(corpus=corpus, backbone=str(backbone), folder=tmp_path)
