"""Files: sources that watch directories, and a sink that commits whole files.

Read ``storage.py`` first (what is asked of a file system), then ``source.py`` with its formats
(``text.py``, ``parquet.py``), then ``sink.py``, ``writer.py`` and ``commit.py`` for the way of a file
from in-progress over pending to finished.
"""
