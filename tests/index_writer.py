"""Writes an index in a process of its own: FOLDER CORPUS HOW, where HOW says when it kills itself."""

import os
import signal
import sys
import time

from conftest import letters
from rankencoder.search import rank_index, table
from rankencoder.search.rank_index import RankIndex

write, optimize = table.LanceRows.write, table.LanceRows.optimize


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def write_index(folder, corpus, how):
    commits = 0

    def killed(self, *args, **kwargs):
        nonlocal commits
        commits += 1
        kill() if how == f"before {commits}" else None
        write(self, *args, **kwargs)
        kill() if how == f"after {commits}" else None
        time.sleep(0.02 if how == "slow" else 0)

    def killed_while_optimizing(self):
        kill() if how == "optimizing" else None
        optimize(self)

    rank_index._PART, table._COMMITS = 50, 5
    table.LanceRows.write, table.LanceRows.optimize = killed, killed_while_optimizing
    made = RankIndex.create(letters, folder)
    print(made.add(corpus)["added"])
    made.optimize()


if __name__ == "__main__":
    write_index(*sys.argv[1:])
