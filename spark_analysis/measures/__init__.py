"""What is measured: one file per concept (`spark_analysis.measures.measure`)."""
