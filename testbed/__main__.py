"""Run the command line: `python -m testbed`."""

from testbed.app import main

main()
