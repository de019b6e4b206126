"""MariaDB, MySQL and PostgreSQL: sinks that are exact after any crash, and sources that replay.

Read ``sink.py`` first, then ``two_phase.py`` with ``committer.py``; ``dialect.py`` says what the two
databases have in common.
"""
