"""What the static and the dynamic setting have in common: the event space and its sizes."""

from __future__ import annotations

from typing import Final

SPACE: Final = "stock:A:Z:25,price:0:1000:20"
BITS_OF_IDS: Final = 1024
STOCKS: Final = 100
EVENTS: Final = 400
"""Most quotes of a network, by random peers: a sample of the up to ten per peer."""
