"""Writes an index in a process of its own: FOLDER CORPUS HOW, where HOW says when it kills itself."""

import os
import signal
import sys
import time

from conftest import letters
from rankencoder.search import RankIndex, index, table

index._PART = 50
folder, corpus, how = sys.argv[1:]
write, optimize = table.LanceRows.write, table.LanceRows.optimize
commits = 0


def killed(self, *args, **kwargs):
    global commits
    commits += 1
    if how == f"before {commits}":
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, *args, **kwargs)
    if how == f"after {commits}":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "slow":
        time.sleep(0.02)


def killed_while_optimizing(self):
    if how == "optimizing":
        os.kill(os.getpid(), signal.SIGKILL)
    optimize(self)


table.LanceRows.write, table.LanceRows.optimize = killed, killed_while_optimizing
table._COMMITS = 5

if __name__ == "__main__":
    made = RankIndex.create(letters, folder)
    print(made.add(corpus)["added"])
    made.optimize()
