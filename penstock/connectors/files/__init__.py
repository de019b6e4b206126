"""Files: sources that watch directories, sinks that commit whole files, and what tables share with them.

Read ``storage.py`` first (what is asked of a file system).  Sources: ``source.py``, ``discovery.py`` (which
files, in which parts), ``lines.py`` with the formats made of lines (``csv.py``, ``json_lines.py``),
``parquet.py``, ``orc.py``, ``partitions.py`` for columns out of directory names.  Sinks: ``sink.py``, then
``writer.py`` for the way of a file from in-progress over pending to finished, ``compact.py`` for files that
are merged first; ``parts.py``, ``column_parts.py`` and ``parquet_writer.py`` for what is in them.
"""
