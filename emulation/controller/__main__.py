"""Start the controller: `python -m emulation.controller CONFIG.json`; see `ryu_app`."""

from __future__ import annotations

import sys

from emulation.controller.ryu_app import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
