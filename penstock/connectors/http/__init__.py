"""HTTP in: a server that puts what is posted to it into the embedded log.

Read ``server.py`` (what is promised about a request), then ``connection.py``.
"""
