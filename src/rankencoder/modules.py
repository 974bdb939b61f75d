"""A sentence-transformers module that turns sentence vectors into blended rank vectors."""

from __future__ import annotations

from typing import Any

import torch
from sentence_transformers.base.modules import Module

from rankencoder.blend import blend_vectors, blended_dimension, check_rank_weight
from rankencoder.forms import Form, restore_form


class RankModule(Module):
    """Replaces ``sentence_embedding`` by the unit vector whose cosine is Eq. 7; the last module."""

    def __init__(self, form: Form, rank_weight: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.form = form
        self.rank_weight = check_rank_weight(rank_weight)

    def forward(self, features: dict[str, torch.Tensor | Any], **_: Any) -> dict[str, torch.Tensor | Any]:
        """Blend each sentence vector with its rank part."""
        vectors = torch.nn.functional.normalize(features["sentence_embedding"].float(), dim=1)
        features["sentence_embedding"] = blend_vectors(self.form(vectors), vectors, self.rank_weight)
        return features

    def get_embedding_dimension(self) -> int:
        """Return the dimensions of the vectors."""
        return blended_dimension(self.form.dimension, self.form.reference.shape[1], self.rank_weight)

    def get_config_dict(self) -> dict[str, Any]:
        """Return what `load` needs beside the tensors."""
        return {"form": self.form.name, "settings": self.form.config(), "rank_weight": self.rank_weight}

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Write configuration and tensors (always as safetensors)."""
        self.save_config(output_path)
        self.save_torch_weights(output_path, safe_serialization=True)

    @classmethod
    def load(cls, model_name_or_path: str, **kwargs: Any) -> RankModule:  # type: ignore[override]
        """Read a saved module from a folder or the hub."""
        names = ("subfolder", "token", "cache_folder", "revision", "local_files_only")
        hub = {name: kwargs[name] for name in names if name in kwargs}
        config = cls.load_config(model_name_or_path, **hub)
        weights = cls.load_torch_weights(model_name_or_path, **hub)
        tensors = {name.removeprefix("form."): tensor for name, tensor in weights.items()}
        form = restore_form(config["form"], config["settings"], tensors.pop("reference"), tensors)
        return cls(form, config["rank_weight"])
