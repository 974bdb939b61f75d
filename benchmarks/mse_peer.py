"""The peers of `rankencoder.distill`: sentence-transformers' MSELoss, and model2vec's distillation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

LENGTH = 64  # tokens that training reads, as `rankencoder.distill` does


def start_student(model: Path, layers: int) -> SentenceTransformer:
    """Return an encoder with some of its layers, as `rankencoder.distill` begins with it."""
    from sentence_transformers import SentenceTransformer

    from rankencoder.distillation.student_sources import drop_layers

    return drop_layers(SentenceTransformer(str(model)), layers)


def read_taught(corpus: Path, vectors: Path, seed: int) -> dict[str, Any]:
    """Return the sentences that `rankencoder.distill` teaches with this seed, and the teacher's vectors."""
    from rankencoder.distillation.agreement import held_out_rows

    lines = corpus.read_text(encoding="utf-8").splitlines()
    first = {line: i for i, line in reversed(list(enumerate(line for line in lines if line.strip())))}
    texts = sorted(first, key=first.__getitem__)
    kept = np.setdiff1d(np.arange(len(texts)), held_out_rows(len(texts), seed))
    table = np.load(vectors, mmap_mode="r")[[first[texts[i]] for i in kept]]
    return {"sentence": [texts[i] for i in kept], "label": table.astype(np.float32)}


def train_mse(model: SentenceTransformer, taught: dict[str, Any], output: Path, **settings: Any) -> Path:
    """Train a model by MSELoss to the vectors of the whole teacher; return its folder.

    :param taught: Columns "sentence" and "label" (see `read_taught`).
    :param settings: ``seed``, ``epochs``, ``batch_size`` and ``learning_rate``.
    """
    import torch
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
    from sentence_transformers.sentence_transformer.losses import MSELoss

    length = model.max_seq_length
    model.max_seq_length = LENGTH
    arguments = SentenceTransformerTrainingArguments(
        str(output / "trainer"),
        seed=settings["seed"],
        num_train_epochs=settings["epochs"],
        per_device_train_batch_size=settings["batch_size"],
        learning_rate=settings["learning_rate"],
        warmup_steps=0.1,
        bf16=torch.cuda.is_available(),
        use_cpu=not torch.cuda.is_available(),
        dataloader_drop_last=True,
        dataloader_num_workers=2,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = SentenceTransformerTrainer(
        model=model, args=arguments, train_dataset=Dataset.from_dict(taught), loss=MSELoss(model)
    )
    trainer.train()
    model.max_seq_length = length
    model.save_pretrained(str(output / "encoder"))
    return output / "encoder"


def distill_model2vec(teacher: Path, dim: int, output: Path) -> Path:
    """Return the folder of the static model that model2vec makes of a teacher, as a SentenceTransformer."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding

    modules: list[Any] = [StaticEmbedding.from_distillation(str(teacher), pca_dims=dim), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(output / "encoder"))
    return output / "encoder"
