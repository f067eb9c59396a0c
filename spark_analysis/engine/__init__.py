"""Spark: its session, how it is tuned, its errors, and the tables that queries make."""
