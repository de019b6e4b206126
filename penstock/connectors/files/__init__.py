"""Files: sources that watch directories, sinks that commit whole files, and what tables share with them.

Read ``storage.py`` first (what is asked of a file system).  Sources: ``source.py``, ``discovery.py`` (which
files, in which parts), ``lines.py`` with the formats made of lines (``text.py``, ``csv.py``,
``json_lines.py``), ``parquet.py``, ``orc.py``, ``hive.py`` for columns out of directory names.  Sinks:
``sink.py``, ``writer.py`` and ``commit.py`` for the way of a file from in-progress over pending to finished,
``compact.py`` for files that are merged first; ``parts.py``, ``column_parts.py`` and ``parquet_writer.py``
for what is in them.  ``table_files.py`` and ``table_commit.py`` are what Delta and Iceberg have in common.
"""
