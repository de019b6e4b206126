"""The only importer of pyspark: gangs of slots in barrier stages, and everything about executors."""
