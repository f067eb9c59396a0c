"""What is recorded of a run."""

from __future__ import annotations

from emulation.mn.recording import PeerRows, Row


def test_a_level_has_a_row_if_it_is_new_has_changed_or_was_written_long_ago() -> None:
    rows = PeerRows()

    def written(now: float, *given: Row, last: bool = False) -> list[Row]:
        return rows.worth(now, given, all_of_them=last)

    one, other = ("a", "b", -50.0), ("b", "a", -60.0)
    assert written(100.0, one, other) == [one, other]
    assert written(101.0, one, other) == []
    assert written(102.0, ("a", "b", -50.6), other) == []
    drifted = ("a", "b", -51.2)  # less than 1 dB a step, more since it was written
    assert written(103.0, drifted, other) == [drifted]
    assert written(110.0, drifted, other) == [other]
    assert written(112.0, drifted) == []  # the other has gone out of reach ...
    assert written(112.5, drifted, other) == [other]  # ... and has come back
    assert written(113.0, drifted, other) == [drifted]
    assert written(113.5, drifted, other, last=True) == [drifted, other]
