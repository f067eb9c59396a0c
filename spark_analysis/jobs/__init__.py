"""Jobs: DataFrames in, DataFrames out; nothing here reads a file or starts a query.

Each job takes frames (`schemas.FRAMES`) of one or many runs, or the result of another job, and
returns a DataFrame with one of the schemas in `spark_analysis.schemas`.
"""
