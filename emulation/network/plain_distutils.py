"""Makes `import distutils` load the standard library's where there is one (Python 3.11).

Mininet and Ryu compare versions with it.  Setuptools, if installed, would replace it and be loaded
whole, which takes as long as the rest of Mininet.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 12):
    hack = sys.modules.get("_distutils_hack")
    if hack is not None and "distutils" not in sys.modules:
        hack.remove_shim()
