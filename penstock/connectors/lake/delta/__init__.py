"""Delta Lake tables: a sink that is exact after any crash, and a source for one version of a table.

Read ``sink.py`` first (data files, transactions and how a repeated one is known), then ``table.py`` (opening,
creating and checking tables), and ``source.py``.  Design note 015 has the argument.
"""
