"""Epochs as files: each epoch's records are staged as Parquet files and handed to a function on the driver.

Read ``sink.py`` first (who calls what), then ``writer.py`` (how files get their names) and ``commit.py``
(why the same epoch always has the same rows).
"""
