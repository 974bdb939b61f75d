"""``python -m rankencoder`` and the command ``rankencoder``."""

import sys


def main() -> None:
    """Run the command line, and handle Ctrl-C even during its imports."""
    try:
        from rankencoder.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
