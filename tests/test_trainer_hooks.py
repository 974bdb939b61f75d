"""The hooks of sentence-transformers and transformers that the trainer overrides."""

import sys
from types import SimpleNamespace

import pytest
import torch
from sentence_transformers import SentenceTransformerTrainer

from rankencoder.training.loop.trainer import EncoderTrainer

HOOKS = (
    "add_model_card_callback",
    "compute_loss",
    "log",
    "_clip_grad_norm",
    "_save_checkpoint",
    "_save",
    "_load_from_checkpoint",
)


@pytest.mark.filterwarnings("ignore::rankencoder.errors.TrainingWarning")
def test_upstream_calls_every_hook(train, train_killed, monkeypatch):
    """A release of either library that renames one would train without clipping, or resume from nothing."""
    called = set()

    def spy(name):
        original = getattr(EncoderTrainer, name)

        def hook(self, *args, **kwargs):
            caller = sys._getframe(1).f_globals["__name__"].partition(".")[0]
            if caller in ("transformers", "sentence_transformers"):
                called.add(name)
            return original(self, *args, **kwargs)

        return hook

    for name in HOOKS:
        assert hasattr(SentenceTransformerTrainer, name)
        monkeypatch.setattr(EncoderTrainer, name, spy(name))
    settings = {"only_base": True, "save_steps": 2, "max_steps": 4}
    train_killed("run", stage=1, step=3, **settings)
    train("run", resume=True, **settings)
    assert called == set(HOOKS)


def test_a_batch_that_is_on_its_device_is_not_pinned(monkeypatch):
    """A step without a graph gets it from one that looked for a graph."""
    trainer = object.__new__(EncoderTrainer)
    trainer.args = SimpleNamespace(device=torch.device("cuda"))
    monkeypatch.setattr(SentenceTransformerTrainer, "_prepare_input", lambda self, data: data)
    there = torch.empty(2, device="meta")  # which cannot be pinned either
    assert trainer._prepare_input(there) is there
