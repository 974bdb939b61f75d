"""``python -m rankencoder``."""

from rankencoder.cli import main

if __name__ == "__main__":
    main()
