from __future__ import annotations

import pytest

from emulation.backends.base import BackendError
from emulation.backends.realtime.estimate import check


def test_a_run_that_is_too_large_is_refused_or_warned_of_before_it_starts() -> None:
    assert check(200, available=8 << 30, cores=2) is None
    warning = check(1000, available=8 << 30, cores=2)
    assert warning is not None
    assert "1,000 nodes will hardly keep real time on 2 cores" in warning
    assert "about 4.2 GB of memory and 2 min to start" in warning
    with pytest.raises(BackendError, match=r"5,000 nodes need about 21.0 GB .*, and 8.6 GB are"):
        check(5000, available=8 << 30, cores=2)
