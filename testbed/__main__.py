"""Run the command line: `python -m testbed`."""

import gc
import sys

from testbed.interruption import guarded


def _command() -> None:
    # What is loaded is no garbage: to look for it after every 700 objects takes an eighth of the
    # time.
    gc.set_threshold(20_000)
    from testbed.app import main

    main()


def main() -> None:
    """Run the command line; Ctrl-C ends it with one line, also while it is being loaded."""
    sys.exit(guarded(_command))


if __name__ == "__main__":
    main()
