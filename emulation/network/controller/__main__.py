"""Start the controller: `python -m emulation.network.controller CONFIG.json`; see `ryu_app`."""

from __future__ import annotations

import sys

from emulation.network.controller.ryu_app import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
