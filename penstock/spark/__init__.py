"""The only importer of pyspark: worker groups in barrier stages, and everything about executors."""
