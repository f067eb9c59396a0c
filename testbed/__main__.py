"""Run the command line: `python -m testbed`."""

import gc
import sys

from testbed.interruption import guarded


def _command() -> None:
    # Loaded modules are not garbage: collecting after every 700 objects takes an eighth of the
    # time.
    gc.set_threshold(20_000)
    from capture.process import low_limits, too_little_memory

    if too_little_memory():  # some libraries never stop trying
        sys.stderr.write(f"error: {low_limits()}\n")
        sys.exit(1)
    try:
        from testbed.app import main

        main()
    except (ImportError, MemoryError, OSError) as error:
        limits = low_limits()
        if not limits:
            raise
        sys.stderr.write(f"error: {error or 'out of memory'} ({limits})\n")
        sys.exit(1)


def main() -> None:
    """Run the command line; Ctrl-C ends it with one line, also while it is being loaded."""
    sys.exit(guarded(_command))


if __name__ == "__main__":
    main()
