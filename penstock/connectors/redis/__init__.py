"""Redis: its streams as a source, and keys, hashes and streams as sinks.

Read ``client.py`` (how to get there), ``source.py``, then ``commands.py`` and ``sink.py``.
"""
