"""Run the distillations of ``results/distill``, and score students, teachers and peers.

Needs the development data (``../shared``, or RANKENCODER_SHARED) and the encoders that `pypi_encoders.py`
makes. Each run is a process of its own, several at a time; what is finished is not done again. Nothing is
trained or stopped by labels::

    python benchmarks/distill.py --plan
    python benchmarks/distill.py minilm-3-timed --lanes 1       # one NVIDIA H200, teachers' vectors included
    python benchmarks/distill.py 'encoder-*' minilm-3 minilm-6 --lanes 4

Results are ``results/distill/NAME-SEED.json``; `distill_table.py` makes tables of them. Vectors of a teacher
are made once for each text and shared by all runs but the timed ones.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import shutil
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from distill_experiments import EXPERIMENTS, SENTENCES
from distill_scores import score_encoder, seen_questions
from experiment_job import write_result
from jobs import Job, add_arguments, corpus_file, locked, run_all
from mse_peer import distill_model2vec, read_taught, start_student, train_mse

from rankencoder.provenance import provenance

BATCH = 256
KEPT = ("agreement", "dissent", "sentences_per_second", "student", "held_out")  # of a run's record


class Run:
    """One job: where its files are, and how long its parts took."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.about, self.seed, self.settings = told["about"], told["seed"], dict(told["settings"])
        self.folder, self.work = Path(told["folder"]), Path(told["about"]["work"])
        self.result: dict[str, Any] = {key: told[key] for key in ("name", "seed", "settings")}
        self.result |= {key: self.about[key] for key in ("kind", "start", "corpus", "sentences")}
        self.seconds: dict[str, float] = {}

    def encoder(self, name: str) -> Path:
        """Return the folder of an encoder."""
        return Path(self.about["encoders"]) / name

    def corpus(self) -> Path:
        """Return the file of the text; it is written once."""
        with locked(self.work / "corpus.lock"):
            wiki = corpus_file(self.work, self.about["sentences"])
            if self.about["corpus"] == "wiki":
                return wiki
            file = self.work / f"{self.about['corpus']}-{self.about['sentences']}.txt"
            if not file.exists():
                new = file.with_suffix(".new")
                more = wiki.read_text("utf-8") if self.about["corpus"] == "questions" else ""
                new.write_text(more + "".join(f"{question}\n" for question in seen_questions()), "utf-8")
                new.rename(file)
            return file

    def vectors(self, name: str) -> Path:
        """Return the file of an encoder's vectors of the text, made once, in half precision on a GPU."""
        import torch

        from rankencoder import vector_files

        corpus = self.corpus()
        file = self.work / "vectors" / corpus.stem / f"{name}.npy"
        half = torch.autocast("cuda", torch.float16) if torch.cuda.is_available() else nullcontext()
        with locked(file.with_suffix(".lock")), half:
            if not file.exists():
                vector_files.PART = 65_536  # many enough for the fast tokenizer
                vector_files.encode_file(
                    self.encoder(name), corpus, file, skip_invalid=True, batch_size=BATCH
                )
        return file


def do_distill(run: Run) -> Path:
    """Teach a student."""
    import rankencoder

    given = {**run.settings, "seed": run.seed}
    # a static student asks its teacher for words, which a file does not know
    direct = run.about["timed"] or given["student"] == "static"
    given["teacher"] = [str((run.encoder if direct else run.vectors)(name)) for name in given["teacher"]]
    if given["student"] != "static":
        given["student"] = str(run.encoder(given["student"]))
    corpus = run.corpus()
    began = time.perf_counter()
    found = rankencoder.distill(corpus, run.folder / "run", progress=False, **given)
    run.seconds["distill"] = round(time.perf_counter() - began, 1)
    run.seconds |= {f"distill: {name}": value for name, value in found.record["seconds"].items()}
    run.result |= {key: found.record[key] for key in KEPT if key in found.record}
    return Path(found.encoder)


def do_encoder(run: Run) -> Path:
    """Score an encoder as it is."""
    return run.encoder(run.settings["student"])


def do_start(run: Run) -> Path:
    """Score an encoder without some of its layers, before it is taught."""
    start_student(run.encoder(run.settings["student"]), run.settings["layers"]).save_pretrained(
        str(run.folder / "encoder")
    )
    return run.folder / "encoder"


def do_mse(run: Run) -> Path:
    """Teach the same student by MSELoss."""
    name = run.settings["student"]
    corpus, vectors = run.corpus(), run.vectors(name)
    began = time.perf_counter()
    student = start_student(run.encoder(name), run.settings["layers"])
    taught = read_taught(corpus, vectors, run.seed)
    given = {key: run.settings[key] for key in ("epochs", "batch_size", "learning_rate")}
    folder = train_mse(student, taught, run.folder, **given, seed=run.seed)
    run.seconds["distill"] = round(time.perf_counter() - began, 1)
    return folder


def do_model2vec(run: Run) -> Path:
    """Let model2vec make a static model."""
    return distill_model2vec(run.encoder(run.settings["student"]), run.settings["dim"], run.folder)


DO: dict[str, Callable[[Run], Path]] = {
    "distill": do_distill,
    "encoder": do_encoder,
    "start": do_start,
    "mse": do_mse,
    "model2vec": do_model2vec,
}


def run_job(told: dict[str, Any]) -> None:
    """Do one job, score what came out, and write it down."""
    run = Run(told)
    shutil.rmtree(run.folder, ignore_errors=True)
    run.folder.mkdir(parents=True)
    began = time.perf_counter()
    model = DO[run.about["kind"]](run)
    scoring = time.perf_counter()
    run.result["scores"] = score_encoder(model)
    run.seconds |= {"score": time.perf_counter() - scoring, "all": time.perf_counter() - began}
    about = {"seconds": run.seconds, "device": device_name(), **provenance()}
    write_result(Path(told["result"]), {**run.result, **about}, run.work)
    shutil.rmtree(run.folder)


def device_name() -> str:
    """Return the GPU's name, or "cpu"."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"


def make_jobs(names: list[str], seeds: list[int], **about: Any) -> list[Job]:
    """Return the jobs whose names match, for the seeds that are asked for or else their own."""
    jobs = []
    for name, of in EXPERIMENTS.items():
        if not any(fnmatch.fnmatch(name, pattern) for pattern in names or ["*"]):
            continue
        told = {key: getattr(of, key) for key in ("kind", "start", "corpus", "timed")}
        jobs += [Job(name, seed, dict(of.settings), about={**told, **about}) for seed in (seeds or of.seeds)]
    return sorted(jobs, key=lambda job: job.seed)


def main() -> None:
    """Run one job, or all that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_arguments(parser, work=Path("experiments-work/distill"), output=Path("results/distill"))
    parser.set_defaults(seeds=[], sentences=SENTENCES)
    parser.add_argument("names", nargs="*", help="experiments, * matching anything; by default all")
    parser.add_argument("--encoders", type=Path, default=Path("experiments-work/encoders"))
    parser.add_argument("--set", default="{}", help="settings of all, as JSON, for a try")
    parser.add_argument("--plan", action="store_true", help="list the runs that are not finished, and stop")
    options = parser.parse_args()
    if options.job:
        run_job(json.loads(options.job))
        return
    work, output = options.work.resolve(), options.output.resolve()
    places = {"work": str(work), "encoders": str(options.encoders.resolve()), "sentences": options.sentences}
    jobs = make_jobs(options.names, options.seeds, **places)
    for job in jobs:
        job.settings |= json.loads(options.set)
    if options.plan:
        for job in jobs:
            done = "done" if (output / f"{job.key}.json").exists() else "to do"
            print(f"{job.key}  {done}  {job.about['corpus']}  {json.dumps(job.settings)}")
        return
    work.mkdir(parents=True, exist_ok=True)
    run_all(jobs, __file__, work, output, options.lanes, time.perf_counter() + 60 * options.minutes)


if __name__ == "__main__":
    main()
