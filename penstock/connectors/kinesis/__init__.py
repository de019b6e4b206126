"""Amazon Kinesis Data Streams: streams as a source, exactly once, and as a sink, at least once.

Read ``client.py`` (how to get there), ``shards.py`` (which shards, in which order), ``places.py`` and
``reader.py`` (where a reader is, and what it gets there), ``source.py``, then ``sink.py``.
"""
