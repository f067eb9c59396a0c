"""What every page is made with."""

from __future__ import annotations

from typing import Any

import pytest

from spark_analysis.report.page import inline, report_environment


def test_a_line_of_markdown_is_code_and_words_on_a_page() -> None:
    line = "On `manhattan` 58 % < all ([table](../six-schemes.md#maps)), [1.5, 18] (5 %)."
    assert inline(line) == ("On <code>manhattan</code> 58 % &lt; all (table), [1.5, 18] (5 %).")
    assert inline("`<b>`") == "<code>&lt;b&gt;</code>"


@pytest.mark.parametrize(
    ("figures", "buttons"),
    [
        ({}, False),
        ({"figures": []}, False),
        ({"figures": ["a figure"]}, True),
        ({"main": ["a figure"], "figures": []}, True),
    ],
)
def test_figures_can_be_saved_also_if_all_are_main_ones(
    figures: dict[str, Any], buttons: bool
) -> None:
    html = report_environment().get_template("page.html").render(title="a page", **figures)
    assert ("Download figure" in html) == buttons
