"""What is measured: one file a concept (`spark_analysis.measures.measure`)."""
