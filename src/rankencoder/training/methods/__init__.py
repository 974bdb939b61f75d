"""Training methods, one file each, and their registry."""

from rankencoder.training.methods.consert import ConSERT as ConSERT
from rankencoder.training.methods.dclr import DCLR as DCLR
from rankencoder.training.methods.diffcse import DiffCSE as DiffCSE
from rankencoder.training.methods.esimcse import ESimCSE as ESimCSE
from rankencoder.training.methods.method import Method as Method
from rankencoder.training.methods.method import find_method as find_method
from rankencoder.training.methods.method import make_method as make_method
from rankencoder.training.methods.method import methods as methods
from rankencoder.training.methods.method import register as register
from rankencoder.training.methods.promptbert import PromptBERT as PromptBERT
from rankencoder.training.methods.prompteol import PromptEOL as PromptEOL
from rankencoder.training.methods.simcse import SimCSE as SimCSE
from rankencoder.training.methods.simcse_mlm import SimCSEWithMLM as SimCSEWithMLM
from rankencoder.training.methods.sncse import SNCSE as SNCSE
