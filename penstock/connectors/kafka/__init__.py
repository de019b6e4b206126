"""Kafka: topics as sources and sinks, over the client library ``confluent-kafka``.

Read ``client.py`` first (settings and connections), then ``source.py``, ``enumerator.py``, ``offsets.py``
and ``reader.py`` for reading; for writing ``sink.py``, ``writer.py``, ``transactions.py``.
"""
