"""The command `erlangen`, and `python -m erlangen`."""

import sys

__all__ = ["main"]


def main() -> int:
    """Runs a command and returns its exit code; an interrupt before it has begun is no traceback either."""
    try:
        from .cli import main as run  # importing it takes a moment, in which people change their minds

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("erlangen: stopped; nothing was written.\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
