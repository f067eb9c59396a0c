"""What every page is made with."""

from __future__ import annotations

from spark_analysis.report.page import inline


def test_a_line_of_markdown_is_code_and_words_on_a_page() -> None:
    line = "On `manhattan` 58 % < all ([table](../six-schemes.md#maps)), [1.5, 18] (5 %)."
    assert inline(line) == ("On <code>manhattan</code> 58 % &lt; all (table), [1.5, 18] (5 %).")
    assert inline("`<b>`") == "<code>&lt;b&gt;</code>"
