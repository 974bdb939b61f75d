"""``python -m rankencoder`` and the command ``rankencoder``."""

import gc
import sys


def main() -> None:
    """Run the command line, and handle Ctrl-C even during its imports.

    Looking for cycles among the objects of its imports would take a third of the time of a short command.
    """
    gc.set_threshold(10_000)
    try:
        from rankencoder.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    finally:
        if "triton" not in sys.modules:  # which would report what it leaks
            gc.freeze()  # nor at exit


if __name__ == "__main__":
    main()
