"""``rankencoder`` as one of several processes, which notes what it trains on: SHARDS, then arguments."""

import os
import sys
from pathlib import Path

from rankencoder.cli import main
from rankencoder.training.loop.trainer import EncoderTrainer

compute = EncoderTrainer.compute_loss


def run(folder, *arguments):
    def noted(self, model, inputs, *args, **kwargs):
        stage = Path(self.args.output_dir).name
        with open(Path(folder) / f"{stage}-{os.environ['RANK']}", "a") as file:
            file.writelines(f"{row}\n" for row in inputs["views_rows"].flatten().tolist())
        return compute(self, model, inputs, *args, **kwargs)

    EncoderTrainer.compute_loss = noted
    sys.argv = ["rankencoder", *arguments]
    main()


if __name__ == "__main__":
    run(*sys.argv[1:])
