"""Keyed state on the local disk, for state larger than memory: RocksDB, through the package ``rocksdict``.

Read ``keys.py`` and ``values.py`` (how rows look), ``cache.py`` (what is in front of them), ``table.py``,
``timers.py``, ``backend.py`` (one operator's state), then ``files.py`` (checkpoints).  The argument why
checkpoints may share files is design note 010.
"""
