"""Delta Lake tables: a sink that is exact after any crash, and a source for one version of a table.

Read ``sink.py`` first, then ``writer.py`` (data files), ``commit.py`` (transactions and how a repeated one
is known), ``table.py`` (opening, creating and checking tables), and ``source.py``.  Design note 015 has
the argument.
"""
