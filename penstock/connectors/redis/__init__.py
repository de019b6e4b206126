"""Redis: its streams as a source, and keys, hashes and streams as sinks.

Read ``client.py`` (how to get there), then ``source.py`` and ``sink.py``.
"""
