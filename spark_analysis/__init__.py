"""Spark jobs over packet captures: delivery, delay, overhead, and the report."""
