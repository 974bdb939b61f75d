"""Disturbs commands and what they saved, in cases that their names repeat; prints how they ended.

All of them, which takes ten minutes: ``python tests/faults.py --cases 200``. One of them again:
``python tests/faults.py --only kill:train:7:0``.
"""

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from fault_kinds import EQUAL, ERROR, FAILED, UNNOTICED, run_case
from fault_lab import COMMANDS, Lab
from fault_ray import dropped, one_by_one, ray_cluster
from fault_runs import prepare
from fault_saved import SUBJECTS

DISTURBED = ("kill", "disk", "unreadable")
DAMAGES = ("truncate", "flip")


@dataclass(frozen=True)
class Case:
    """One disturbance; all chance in it comes from its name.

    :param kind: Of the fault.
    :param subject: The command, or what is damaged.
    :param number: Of the case; of a damage, which file.
    """

    kind: str
    subject: str
    number: int
    seed: int = 0

    def __str__(self):
        return f"{self.kind}:{self.subject}:{self.number}:{self.seed}"

    @classmethod
    def of(cls, name):
        kind, subject, number, seed = name.split(":")
        return cls(kind, subject, int(number), int(seed))


def plan(lab, cases, seed, like=""):
    """Return at least so many cases: one damage to each saved file, and the other faults in turn."""
    planned = [
        Case(DAMAGES[(number + seed) % 2], subject, number, seed)
        for subject in SUBJECTS
        if any(f"{kind}:{subject}:".startswith(like[: len(f"{kind}:{subject}:")]) for kind in DAMAGES)
        for number in range(len(lab.saved(subject).files))
    ]
    rounds = max(8, -(-(cases - len(planned)) // (len(DISTURBED) * len(COMMANDS))))
    turns = [Case(kind, name, n, seed) for n in range(rounds) for kind in DISTURBED for name in COMMANDS]
    return [case for case in (*turns, *planned) if str(case).startswith(like)]


def main():
    """Run cases, print the table of counts, and exit with 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200, help="how many, at least")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ray", type=int, default=0, help="how many besides on a Ray cluster")
    parser.add_argument("--only", nargs="*", metavar="CASE", help="only these")
    parser.add_argument("--like", default="", help="only those whose names begin so")
    parser.add_argument("--json", type=Path, help="write the verdicts to this file too")
    parser.add_argument("--verbose", action="store_true", help="print every verdict")
    given = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="faults-"))
    began = time.monotonic()
    try:
        prepare()
        lab = Lab(root)
        if given.only is not None:
            cases = [Case.of(name) for name in given.only]
        else:
            cases = plan(lab, given.cases, given.seed, given.like)
        cases += [Case("ray", "encode", n, given.seed) for n in range(given.ray)]
        verdicts = run_cases(lab, [case for case in cases if case.kind != "ray"], talkative=given.verbose)
        verdicts |= run_ray_cases(lab, [case for case in cases if case.kind == "ray"])
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if given.json:
        given.json.write_text(json.dumps({str(case): vars(verdict) for case, verdict in verdicts.items()}))
    print(table(verdicts))
    print(f"{len(verdicts)} cases, seed {given.seed}, {time.monotonic() - began:.0f} s")
    sys.exit(any(verdict.what == FAILED for verdict in verdicts.values()))


def run_ray_cases(lab, cases):
    """Run cases on a cluster, which no process may be forked after."""
    if not cases:
        return {}
    expected = one_by_one(lab)
    with ray_cluster() as (cluster, node):
        return run_cases(lab, cases, lambda lab, case: dropped(lab, case, expected, cluster, node))


def run_cases(lab, cases, run_one=run_case, *, talkative=False):
    """Run cases one after the other; say at once what failed, and how to repeat it."""
    verdicts = {}
    for case in cases:
        verdicts[case] = verdict = run_one(lab, case)
        if talkative:
            print(f"{case}: {verdict.what} {verdict.why.splitlines()[0] if verdict.why else ''}", flush=True)
        if verdict.what == FAILED:
            again = f"python tests/faults.py --only '{case}'"
            print(f"FAILED {case}: {verdict.why}\n  again: {again}", flush=True)
    return verdicts


def table(verdicts):
    """Return how many cases of each fault to each thing ended how."""
    counts = Counter((case.kind, verdict.row, verdict.what) for case, verdict in verdicts.items())
    columns = (EQUAL, ERROR, UNNOTICED, FAILED)
    lines = [f"{'fault':<12}{'of':<22}" + "".join(f"{column:>14}" for column in columns)]
    for kind, row in dict.fromkeys((case.kind, verdict.row) for case, verdict in verdicts.items()):
        numbers = "".join(f"{counts[kind, row, column]:>14}" for column in columns)
        lines.append(f"{kind:<12}{row:<22}{numbers}")
    totals = Counter(verdict.what for verdict in verdicts.values())
    lines.append(f"{'all':<34}" + "".join(f"{totals[column]:>14}" for column in columns))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
