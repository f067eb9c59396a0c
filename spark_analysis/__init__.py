"""Measures over packet captures, by Spark: delivery, delay, overhead, and the report."""
