"""``python -m rankencoder`` and the command ``rankencoder``."""

import gc
import re
import sys


def main() -> None:
    """Run the command line, and handle Ctrl-C even during its imports."""
    # garbage collection during imports and at exit took a third of the time of short commands: the first one
    # comes after a million new objects, which imports do not reach
    gc.set_threshold(1_000_000)
    gc.callbacks.append(lambda *_: gc.set_threshold(10_000))
    try:
        from rankencoder.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    finally:
        triton = getattr(sys.modules.get("triton"), "__version__", "0.0")
        if re.match(r"[0-2]\.|3\.[0-8]\b", triton):  # 3.9 and later would report leaks
            gc.freeze()


if __name__ == "__main__":
    main()
