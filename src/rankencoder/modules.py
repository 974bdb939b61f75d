"""Export a RankEncoder as a SentenceTransformer. Saved models refer to the modules of this file."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, InputModule, Module, Normalize

from rankencoder.blend import blend_vectors, blended_dimension, check_rank_weight
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError
from rankencoder.forms import Form, LinearForm, restore_form
from rankencoder.forms.fidelity import Fidelity, measure
from rankencoder.forms.form import held_out
from rankencoder.fused_encoder import FusedEncoder, fuse_vectors
from rankencoder.persistence import ModelParts, make_card
from rankencoder.ranks import in_double

_PROMPT = "rankencoder"


class RankModule(Module):
    """The last module: replaces ``sentence_embedding`` with the unit vector whose cosine is Eq. 7."""

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
        """Return the configuration that `load` needs besides the tensors."""
        return {"form": self.form.name, "settings": self.form.config(), "rank_weight": self.rank_weight}

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Write configuration and tensors (always as safetensors)."""
        self.save_config(output_path)
        self.save_torch_weights(output_path, safe_serialization=True)

    @classmethod
    def load(cls, model_name_or_path: str, **kwargs: Any) -> RankModule:  # type: ignore[override]
        """Load a module from a folder or the hub."""
        hub = _hub_options(kwargs)
        config = cls.load_config(model_name_or_path, **hub)
        weights = cls.load_torch_weights(model_name_or_path, **hub)
        tensors = {name.removeprefix("form."): tensor for name, tensor in weights.items()}
        form = restore_form(config["form"], config["settings"], tensors.pop("reference"), tensors)
        return cls(form, config["rank_weight"])


class FusionModule(InputModule):
    """The first module: runs several SentenceTransformers and fuses their vectors."""

    save_in_root = False

    def __init__(self, members: Sequence[SentenceTransformer], weights: Sequence[float]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.members: Any = torch.nn.ModuleList(members)
        self.weights = list(weights)

    def preprocess(self, inputs: Any, prompt: str | None = None, **kwargs: Any) -> dict[str, Any]:
        """Tokenize for each member, whose number prefixes the feature names.

        Without a prompt (``encode_query`` passes an empty one), each member uses its own.
        """
        features: dict[str, Any] = {}
        for number, member in enumerate(self.members):
            own = member.prompts.get(member.default_prompt_name or "")
            found = member.preprocess(inputs, prompt=prompt or own, **kwargs)
            features |= {f"{number}.{name}": value for name, value in found.items()}
        return features

    def forward(self, features: dict[str, torch.Tensor | Any], **_: Any) -> dict[str, torch.Tensor | Any]:
        """Fuse the members' vectors."""
        rows = []
        for number, member in enumerate(self.members):
            start = f"{number}."
            own = {name.removeprefix(start): v for name, v in features.items() if name.startswith(start)}
            rows.append(torch.nn.functional.normalize(member(own)["sentence_embedding"].float(), dim=1))
        return {"sentence_embedding": fuse_vectors(rows, self.weights)}

    def get_embedding_dimension(self) -> int:
        """Return the dimensions of the vectors: the sum over all members."""
        return sum(member.get_embedding_dimension() or 0 for member in self.members)

    def get_config_dict(self) -> dict[str, Any]:
        """Return the configuration that `load` needs besides the members."""
        return {"weights": self.weights}

    def save(self, output_path: str, *args: Any, safe_serialization: bool = True, **kwargs: Any) -> None:
        """Save each member to its own folder (always as safetensors)."""
        self.save_config(output_path)
        for number, member in enumerate(self.members):
            member.save_pretrained(str(Path(output_path, str(number))), create_model_card=False)

    @classmethod
    def load(cls, model_name_or_path: str, **kwargs: Any) -> FusionModule:  # type: ignore[override]
        """Load a module from a folder or the hub."""
        hub = _hub_options(kwargs)
        weights = cls.load_config(model_name_or_path, **hub)["weights"]
        folder = cls.load_dir_path(model_name_or_path, **hub)
        options = {**(kwargs.get("model_kwargs") or {}), "use_safetensors": True}
        members = [
            SentenceTransformer(f"{folder}/{number}", device="cpu", model_kwargs=options)
            for number in range(len(weights))
        ]
        return cls(members, weights)


def _hub_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a module's `load` that locate its files."""
    names = ("subfolder", "token", "cache_folder", "revision", "local_files_only")
    return {name: options[name] for name in names if name in options}


def to_sentence_transformer(model: ModelParts) -> SentenceTransformer:
    """Return a SentenceTransformer of a RankEncoder (see `RankEncoder.to_sentence_transformer`)."""
    if isinstance(model.encoder, FusedEncoder):
        members = [export_encoder(member) for member in model.encoder.members]
        exported = SentenceTransformer(
            modules=[FusionModule(members, model.encoder.weights)],
            device=str(model.encoder.device),
            similarity_fn_name="cosine",
        )
    else:
        exported = export_encoder(model.encoder)
    added: list[Any] = [Normalize()]
    if model.rank_weight == 0:
        closeness = "exact"
    elif isinstance(model.form, LinearForm):
        added, fidelity = _linear_modules(model, model.form)
        closeness = f"to Eq. 7 of the linear form: {fidelity}"
    else:
        added = [RankModule(copy.deepcopy(model.form), model.rank_weight)]
        closeness = f"of its ranks to the exact ones: {model.fidelity}"
    for module in added:
        exported.append(module.to(exported.device))
    card = make_card(model, [f"Closeness of these vectors {closeness}"])
    is_custom = any(type(module).__module__.startswith("rankencoder") for module in exported)
    loading = "trust_remote_code=True" if is_custom else ""
    limits = ["Needs rankencoder installed."] if is_custom else []
    card = replace(card, library="sentence-transformers", loading=loading, limits=limits)
    cast(Any, exported)._model_card_text = card.text()  # in place of sentence-transformers' own
    return exported


def export_encoder(encoder: Encoder) -> SentenceTransformer:
    """Return a copy of an encoder as a SentenceTransformer with its prompt."""
    base = encoder.model
    if base is None:
        raise InputError(
            f"the encoder {encoder.name!r} is a callable, which a SentenceTransformer cannot hold: "
            "use encode, whose vectors fit every vector database"
        )
    if base.truncate_dim is not None:
        raise InputError(
            f"the encoder cuts its vectors to {base.truncate_dim} dimensions, which an export cannot: load "
            "it without truncate_dim, and build the reference again"
        )
    prompts = {name: prompt for name, prompt in base.prompts.items() if prompt is not None}
    if encoder.prompt:
        prompts[_PROMPT] = encoder.prompt
    return SentenceTransformer(
        modules=copy.deepcopy(list(base.children())),
        device=str(base.device),
        prompts=prompts,
        default_prompt_name=_PROMPT if encoder.prompt else base.default_prompt_name,
        similarity_fn_name="cosine",
    )


def _linear_modules(model: ModelParts, form: LinearForm) -> tuple[list[Any], Fidelity]:
    """Return modules that compute the linear blend, and their fidelity to Eq. 7."""
    weight, bias = linear_blend(form, model.rank_weight)
    dense = Dense(
        weight.shape[1],
        weight.shape[0],
        bias=form.center,
        activation_function=None,
        init_weight=weight,
        init_bias=bias,
    )
    vectors = form.reference[held_out(len(form.reference))]
    mapped = torch.nn.functional.normalize(vectors @ weight.T + bias, dim=1)
    exact = blend_vectors(form(vectors), vectors, model.rank_weight)
    dense.to(model.encoder.model.dtype if model.encoder.model is not None else None)
    return [Normalize(), dense, Normalize()], measure(mapped @ mapped.T, exact @ exact.T)


def linear_blend(form: LinearForm, rank_weight: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return weight and bias of one dense layer after which the cosine is (nearly) the blend of Eq. 7.

    The layer is [√λ · Σ^p (x − μ) ; √(1−λ) · x], reduced to the fewest dimensions with the same inner
    products. Eq. 7 normalizes both parts before blending; one layer can do so only on average.
    """
    matrix, mean = in_double(form.matrix), in_double(form.mean)
    eye = torch.eye(len(mean), dtype=matrix.dtype, device=matrix.device)
    weight = torch.cat([rank_weight**0.5 * matrix.T, (1 - rank_weight) ** 0.5 * eye])
    bias = -weight @ mean
    bias[len(matrix.T) :] = 0
    small = torch.linalg.qr(torch.cat([weight, bias[:, None]], dim=1) if form.center else weight).R
    rows = form.matrix.new_empty(small.shape).copy_(small)
    if form.center:
        return rows[:, :-1].contiguous(), rows[:, -1].clone()
    return rows, rows.new_zeros(len(rows))
