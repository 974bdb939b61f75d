"""Training methods, one file each, and their registry."""

from rankencoder.training.methods.consert import ConSERT
from rankencoder.training.methods.dclr import DCLR
from rankencoder.training.methods.diffcse import DiffCSE
from rankencoder.training.methods.esimcse import ESimCSE
from rankencoder.training.methods.method import Method, find_method, make_method, methods, register
from rankencoder.training.methods.promptbert import PromptBERT
from rankencoder.training.methods.simcse import SimCSE
from rankencoder.training.methods.simcse_mlm import SimCSEWithMLM
from rankencoder.training.methods.sncse import SNCSE

__all__ = [
    "DCLR",
    "ConSERT",
    "DiffCSE",
    "ESimCSE",
    "Method",
    "PromptBERT",
    "SNCSE",
    "SimCSE",
    "SimCSEWithMLM",
    "find_method",
    "make_method",
    "methods",
    "register",
]
