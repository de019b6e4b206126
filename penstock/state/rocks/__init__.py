"""Keyed state on the local disk, for state larger than memory: RocksDB, through the package ``rocksdict``.

Read ``keys.py`` and ``values.py`` (how rows look), ``table.py`` (the cache in front of them), ``timers.py``,
``backend.py`` (one operator's state), then ``files.py`` and ``native.py`` (snapshots).  The argument why
snapshots may share files is design note 010.
"""
