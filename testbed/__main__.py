"""Run the command line: `python -m testbed`."""

import gc

# What is loaded is no garbage: to look for it after every 700 objects takes an eighth of the time.
gc.set_threshold(20_000)

from testbed.app import main  # noqa: E402

main()
