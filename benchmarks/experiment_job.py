"""One run of an experiment: train, score, describe, and write what came out as JSON."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from encoder_profile import draw_references, profile
from jobs import BACKBONE, COMMON, STS, corpus_file, summary
from paper_sections import SECTIONS, measure_sections, measure_transfer
from sts import SHARED

from rankencoder.progress import Progress

TRANSFER = SHARED / "data/senteval"
ENTRIES = 60  # of a stage's losses that are kept
BERT_BASE: dict[str, Any] = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
}

Told = dict[str, Any]


class Run:
    """One job: where it works, what it found so far, and how long that took."""

    def __init__(self, told: Told) -> None:
        self.told, self.about, self.folder = told, told["about"], Path(told["folder"])
        self.work = Path(self.about["work"])
        self.corpus = Path(self.about["corpus"])
        self.result: dict[str, Any] = {key: told[key] for key in ("group", "name", "seed", "settings")}
        self.result |= {key: self.about.get(key) for key in ("family", "sentences")}
        self.seconds: dict[str, float] = {}

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Take the time of a part."""
        began = time.perf_counter()
        yield
        self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - began, 1)

    def settings(self) -> dict[str, Any]:
        """Return the training's settings, with folders for the names of models."""
        settings = {**COMMON, **self.told["settings"], "seed": self.told["seed"]}
        settings["backbone"] = str(self.backbone(settings["backbone"]))
        if "base_encoder" in settings:
            settings["base_encoder"] = [str(self.work / name) for name in settings["base_encoder"]]
        return settings

    def backbone(self, name: str) -> Path:
        """Return the folder of a backbone."""
        if name == "bert-base":
            return random_bert(self.work / "bert-base")
        own = name in ("smollm2", "gemma")
        return self.work / name if own else BACKBONE if name == "backbone" else Path(name)

    def evaluate(self, model: Path, tasks: list[str], role: str = "", **more: Any) -> None:
        """Score a model and keep what tables need: no similarities of single pairs, no texts."""
        import rankencoder
        from rankencoder.evaluation.sts_data import DEV, SEVEN, read_sts
        from rankencoder.evaluation.subjects import open_subjects

        options = {"cache": self.folder / "vectors", "batch_size": 256, "progress": False, **more}
        with self.timed("evaluate"):
            scored = [task for task in tasks if task not in (*SECTIONS, "transfer")]
            if scored:
                found = rankencoder.evaluate(model, data=STS, tasks=scored, **options)
                for row in found.rows():
                    single = {name: value[0] for name, value in row.values.items()}
                    self.result.setdefault("scores", {})[f"{role} {row.system}".strip()] = single
                kept = {"cost", "machine", "versions"} & set(found.results[0])
                self.result |= {key: found.results[0][key] for key in kept}
            opened = open_subjects(model, **options)
            names = [name for name in (*SEVEN, *DEV) if name in tasks] or (*SEVEN, *DEV)
            self.result |= measure_sections(opened, read_sts(STS, names), tasks)
        if "transfer" in tasks:
            with self.timed("transfer"):
                self.result["transfer"] = measure_transfer(opened, TRANSFER)

    def profile(self, model: Path, role: str) -> None:
        """Describe an encoder in brief."""
        from rankencoder.encoders import Encoder
        from rankencoder.evaluation.sts_data import read_sts
        from rankencoder.evaluation.vector_cache import CachedEncoder

        with self.timed("profile"):
            encoder = CachedEncoder(Encoder(model, batch_size=256), self.folder / "vectors")
            size = min(10_000, self.about["sentences"])
            references = draw_references(corpus_file(self.work, min(64_000, self.about["sentences"])), size)
            self.result.setdefault("profiles", {})[role] = profile(encoder, read_sts(STS), references)

    def train(self, **more: Any) -> None:
        """Train, and keep the record."""
        import rankencoder

        with self.timed("train"):
            settings = {**self.settings(), **more}
            run = rankencoder.train(self.corpus, self.folder, overwrite=True, progress=True, **settings)
        record = run.record
        self.result |= {key: record.get(key) for key in ("stages", "config", "versions", "machine")}
        self.result |= {"stage_2": summary(record["history"]), "history": thinned(record["history"])}
        self.seconds |= {f"train: {name}": round(value, 1) for name, value in record["seconds"].items()}


def thinned(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the looks at dev, and of each stage's losses some, evenly spread."""
    kept = [{key: entry[key] for key in ("stage", "step", "dev")} for entry in history if "dev" in entry]
    for stage in sorted({entry["stage"] for entry in history}):
        entries = [entry for entry in history if entry["stage"] == stage and "loss" in entry]
        step = max(1, -(-len(entries) // ENTRIES))
        names = ("stage", "step", "loss", "contrastive", "rank", "weighted_rank", "pairs", "mlm")
        kept += [{key: entry[key] for key in names if key in entry} for entry in entries[::step]]
    return kept


def random_bert(folder: Path) -> Path:
    """Make a BERT of the base size with random weights: the speed does not depend on them."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

    if not folder.exists():
        new = folder.with_suffix(".new")
        tokenizer = AutoTokenizer.from_pretrained(BACKBONE)
        torch.manual_seed(0)
        BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), **BERT_BASE)).save_pretrained(new)
        tokenizer.save_pretrained(new)
        new.rename(folder)
    return folder


def do_train(run: Run) -> None:
    """Train E1 and E2 (or one of them), score and describe them."""
    run.train()
    given = run.told["settings"].get("base_encoder")
    only_base = run.told["settings"].get("only_base")
    if run.about["tasks"]:
        model = run.folder / "rankencoder" if given else run.folder
        run.evaluate(model, run.about["tasks"], "E2" if given else "")
    run.profile(run.folder / ("encoder" if given else "base"), "E2" if given else "E1")
    if not only_base:
        shutil.rmtree(run.folder / "rankencoder")


def do_encoder(run: Run) -> None:
    """Score and describe a backbone as a method begins with it."""
    do_model(run, untrained_encoder(run))


def untrained_encoder(run: Run) -> Path:
    """Save the encoder that a method begins with."""
    from rankencoder.training.backbones.backbone import load_backbone
    from rankencoder.training.methods import find_method, make_method

    settings = run.settings()
    backbone = load_backbone(settings["backbone"])
    cls = find_method(settings["method"])
    method = make_method(settings["method"], settings.get("options", {}), cls.defaults(backbone))
    method.encoder(backbone).save_pretrained(str(run.folder / "untrained"))
    return run.folder / "untrained"


def do_model(run: Run, model: Path) -> None:
    """Score and describe an encoder that is there."""
    run.evaluate(model, run.about["tasks"], corpus=run.corpus)
    run.profile(model, "E1")


def do_minilm(run: Run) -> None:
    """Score and describe a supervised encoder: ``minilm`` in the work folder, or the demo's."""
    from rankencoder.demo.encoder import bundled_encoder

    own = run.work / "minilm"
    do_model(run, own if own.exists() else bundled_encoder())


def do_saved(run: Run) -> None:
    """Score the E1 of another job."""
    run.evaluate(run.work / run.about["base"] / "base", run.about["tasks"], "E1")


def do_references(run: Run) -> None:
    """Draw the curve over sizes of the reference corpus, up to 100,000, for the E1 of another job."""
    tasks = ["STS-B", "STS-B dev", "curves"]
    size = min(100_000, run.about["sentences"])
    run.evaluate(run.work / run.about["base"] / "base", tasks, "E1", corpus=run.corpus, size=size)


def do_speed(run: Run) -> None:
    """Time both stages and inference, and watch how busy the GPU is in training."""
    import torch

    with watched() as busy:
        run.train()
    run.result["utilisation"] = busy
    if torch.cuda.is_available():
        run.result["device"] = torch.cuda.get_device_name()
        run.result["peak_gpu_bytes"] = torch.cuda.max_memory_reserved()
    run.evaluate(run.folder, ["STS-B", "cost"])


@contextmanager
def watched() -> Iterator[list[float]]:
    """Collect the GPU's utilization in percent, about once a second, where there is one."""
    busy: list[float] = []
    over = threading.Event()
    query = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"]

    def watch() -> None:
        while shutil.which(query[0]) and not over.wait(1.0):
            told = subprocess.run(query, capture_output=True, text=True, check=False).stdout
            busy.extend(float(line) for line in told.split() if line.isdigit())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield busy
    finally:
        over.set()
        watcher.join()


DO = {
    "train": do_train,
    "encoder": do_encoder,
    "minilm": do_minilm,
    "saved": do_saved,
    "references": do_references,
    "speed": do_speed,
}


def run_job(told: Told) -> None:
    """Do one job and write what came out; its log says how far it is."""
    logging.basicConfig(format="%(asctime)s %(message)s")
    logging.getLogger("rankencoder").setLevel(logging.INFO)
    Progress.in_log = True
    run = Run(told)
    shutil.rmtree(run.folder, ignore_errors=True)
    run.folder.mkdir(parents=True)
    began = time.perf_counter()
    DO[run.about["kind"]](run)
    shutil.rmtree(run.folder / "vectors", ignore_errors=True)
    run.seconds["all"] = round(time.perf_counter() - began, 1)
    write_result(Path(told["result"]), {**run.result, "seconds": run.seconds}, run.work)


def write_result(file: Path, result: dict[str, Any], work: Path) -> None:
    """Write what came out as JSON, a line for each key."""
    tidy = tidied(result, work)
    lines = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in tidy.items()]
    new = file.with_suffix(".new")
    new.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    new.rename(file)


def tidied(value: Any, work: Path) -> Any:
    """Return JSON with six digits a number, and with paths that mean something elsewhere."""
    if isinstance(value, dict):
        return {key: tidied(item, work) for key, item in value.items()}
    if isinstance(value, list):
        return [tidied(item, work) for item in value]
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, (str, Path)):
        text = str(value).replace(f"{work}/", "")
        return text.replace(str(SHARED), "../shared").replace(str(SHARED.resolve()), "../shared")
    return value
