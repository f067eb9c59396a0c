"""The replay of a run in its report: what its captures show, compact enough to be in the page."""
