"""Ryu's own command, `ryu-manager`, or os-ken's: it runs any application of theirs.

    .ryu/bin/python -m emulation.network.controller.manager APPLICATION...

Ryu 4.34 does not start with an eventlet of today, which lacks a name that its web server imports.
"""

from __future__ import annotations

import sys

import eventlet.wsgi

import emulation.network.plain_distutils  # noqa: F401  before Ryu

if not hasattr(eventlet.wsgi, "ALREADY_HANDLED"):
    eventlet.wsgi.ALREADY_HANDLED = [b""]

try:
    from ryu.cmd.manager import main
except ModuleNotFoundError:
    from os_ken.cmd.manager import main

if __name__ == "__main__":
    sys.exit(main())
