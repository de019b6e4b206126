"""Apache Iceberg tables: a sink that is exact after any crash, through the ``pyiceberg`` package.

Read ``sink.py`` first, then ``writer.py`` and ``commit.py``; ``table.py`` opens, creates and checks tables.
Design note 015 has the argument.
"""
