"""BATCH mode on Spark: the vertices of a job as a DataFrame program."""
