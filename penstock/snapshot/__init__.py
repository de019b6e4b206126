"""The snapshot protocol: what makes a snapshot true, who may commit it, and how it is dealt out again.

Pure functions from facts to decisions (``journal``, ``permit``, ``rescale``, ``retain``, ``matching``),
the manifest as bytes (``manifest``), storage (``store``), and ``repository`` that strings them together.
Read ``docs/design/002-journal-and-fencing.md`` before changing the journal.
"""
