"""The base class of training methods, and their registry."""

from __future__ import annotations

import dataclasses
import os
import pkgutil
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import ConfigDict, Field, PositiveFloat, TypeAdapter, ValidationError
from sentence_transformers import SentenceTransformer
from typing_extensions import dataclass_transform

from rankencoder.encoder_sources import absolute_name
from rankencoder.encoders import Encoder
from rankencoder.errors import InputError, nearest
from rankencoder.training.backbones.backbone import Backbone
from rankencoder.training.losses.contrastive import ContrastiveLoss
from rankencoder.training.settings_file import explain

if TYPE_CHECKING:
    from datasets import Dataset

Rows = dict[str, list[Any]]
Views = list[list[list[int]]]
Share = Annotated[float, Field(ge=0, le=1)]


def cite(key: str) -> str:
    """Return a BibTeX entry of `citations.bib`."""
    entries = Path(__file__).with_name("citations.bib").read_text(encoding="utf-8").strip().split("\n\n")
    return next(entry for entry in entries if f"{{{key}," in entry)


@contextmanager
def needed(what: str, method: str, option: str, example: str) -> Iterator[None]:
    """Name the method and the option in errors about a second model; can be used as a decorator."""
    try:
        yield
    except InputError as error:
        raise InputError(
            f"method {method!r} needs {what}: {error}; set `options` {option}=NAME, for example {example}"
        ) from error


@dataclass(frozen=True)
class Family:
    """A kind of backbone, to show settings without loading one."""

    kind: Literal["masked", "causal"] = "masked"
    is_roberta: bool = False
    is_large: bool = False


Traits = Family | Backbone  # what the authors' settings depend on


@dataclass(frozen=True)
class Method:
    """A way to train an encoder on unlabeled sentences.

    A method defines how tokens become a vector (`encoder`), how a sentence becomes views (`views`) and what
    is minimized (`loss`). Its options are the fields of a dataclass, validated by their types.

    :param temperature: τ of the contrastive loss.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    citation: ClassVar[str]  # a BibTeX entry
    loss_class: ClassVar[type[ContrastiveLoss]] = ContrastiveLoss  # the loss of stage 1
    kinds: ClassVar[tuple[str, ...]] = ("masked",)  # kinds of language models: "masked", "causal"
    graphs: ClassVar[bool] = True  # whether CUDA graphs fit: the loss' shapes depend on the inputs' alone
    dropout: ClassVar[float | None] = None  # in place of the backbone's own
    paths: ClassVar[tuple[str, ...]] = ()  # options that may name a folder

    temperature: PositiveFloat = 0.05

    __pydantic_config__ = ConfigDict(allow_inf_nan=False)

    @classmethod
    def paper(cls) -> tuple[str, int]:
        """Return the citation in one line, and its year."""
        fields = dict(re.findall(r'(\w+) = "([^"]*)"', re.sub(r"[{}]", "", cls.citation)))
        if not {"author", "title", "year"} <= fields.keys():
            return cls.__name__, 0
        authors = [author.partition(",")[0] for author in re.split(r"\s+and\s+", fields["author"])]
        who = " and ".join(authors) if len(authors) < 3 else f"{authors[0]} et al."
        return f"{fields['title']} ({who}, {fields['year']})", int(fields["year"])

    @classmethod
    def defaults(cls, backbone: Traits) -> dict[str, Any]:
        """Return the authors' settings for a backbone: training settings and options."""
        raise NotImplementedError

    def encoder(self, backbone: Backbone) -> SentenceTransformer:
        """Return the encoder to train and save, made of built-in modules only."""
        raise NotImplementedError

    def check(self, backbone: Backbone) -> None:
        """Raise an InputError if something that the method needs is missing."""

    def companion(self, device: str | None) -> Encoder | None:
        """Return a second encoder, if the loss needs its unit vectors of the sentences.

        They are computed once; `ContrastiveLoss.contrast` gets them as the feature "companion".
        """
        return None

    def teaching_encoder(self, encoder: Encoder) -> Encoder:
        """Return E1 as it encodes E2's training sentences; the reference corpus is encoded before."""
        return encoder

    def prepare(self, sentences: Dataset, *, fingerprint: str, progress: bool) -> Dataset:
        """Return the sentences with further columns that the views need, computed once."""
        return sentences

    def views(self, rows: Rows, backbone: Backbone, max_length: int) -> Views:
        """Return the token ids of each view of a batch of rows, with "text" and the columns of `prepare`.

        Randomness must depend on the row's number alone: batches are prefetched, and made again on resuming.
        By default both views are the sentence, truncated to ``max_length`` tokens.
        """
        ids = backbone.tokenizer(rows["text"], truncation=True, max_length=max_length)["input_ids"]
        return [ids, ids]

    def loss(self, model: SentenceTransformer, backbone: Backbone) -> ContrastiveLoss:
        """Return the loss of stage 1 for an encoder."""
        return self.loss_class(model, self, backbone)

    def options(self) -> dict[str, Any]:
        """Return the options and their values."""
        return dataclasses.asdict(self)


M = TypeVar("M", bound=Method)
_METHODS: dict[str, type[Method]] = {}


@dataclass_transform(frozen_default=True)
def register(method: type[M]) -> type[M]:
    """Register a method under its name; can be used as a decorator.

    :raises InputError: If it is not a method, or its name is taken.

    >>> from rankencoder.training import SimCSE
    >>> @register
    ... class WarmSimCSE(SimCSE):
    ...     name = "warm-simcse"
    ...     about = "SimCSE at a higher temperature."
    ...     temperature: float = 0.1
    >>> find_method("warm-simcse").__name__
    'WarmSimCSE'
    """
    if not (isinstance(method, type) and issubclass(method, Method)):
        raise InputError(f"{method!r} is not a method: derive a class from rankencoder.training.Method")
    if missing := [name for name in ("name", "about", "citation") if not hasattr(method, name)]:
        raise InputError(f"method {method.__name__} lacks {', '.join(missing)}")
    known = _METHODS.get(method.name, method)
    origin = f"{known.__module__}.{known.__qualname__}"
    if origin != f"{method.__module__}.{method.__qualname__}":
        raise InputError(f"method {method.name!r} exists already ({origin})")
    if "__dataclass_params__" not in vars(method):
        method = dataclass(frozen=True)(method)  # otherwise its own options would be ignored
    _METHODS[method.name] = method
    return method


def methods() -> dict[str, type[Method]]:
    """Return the registered methods by name."""
    return dict(_METHODS)


def find_method(name: str) -> type[Method]:
    """Return a method by its name, or by "package.module:Class".

    :raises InputError: If there is none; names the nearest one.
    """
    if name in _METHODS:
        return _METHODS[name]
    if ":" not in name:
        raise InputError(f"unknown method {name!r}:{nearest(name, _METHODS)}")
    path = sys.path
    sys.path = [os.getcwd(), *path]  # as for python -m
    try:
        found = pkgutil.resolve_name(name)
    except Exception as error:  # anything can be wrong with the module
        raise InputError(f"cannot import method {name!r}: {error}") from error
    finally:
        sys.path = path
    return register(found)


def absolute_options(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return a method's options with absolute paths, which are valid in any working directory."""
    find_method(name)  # when resuming, the run's method may be another one: look at all
    paths = {path for method in methods().values() for path in method.paths}
    return {key: absolute_name(value) if key in paths else value for key, value in options.items()}


def make_method(name: str, options: dict[str, Any], defaults: dict[str, Any]) -> Method:
    """Return a method with validated options; the others are those of `Method.defaults`."""
    cls = find_method(name)
    names = [field.name for field in dataclasses.fields(cls)]
    for option in options:
        if option not in names:
            raise InputError(f"method {name!r} has no option {option!r}:{nearest(option, names)}")
    chosen = {key: value for key, value in defaults.items() if key in names}
    try:
        return TypeAdapter(cls).validate_python({**chosen, **options})
    except ValidationError as error:
        raise InputError(explain(error, f"option {{}} of {name!r}")) from error
