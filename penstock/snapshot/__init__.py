"""The snapshot protocol: what publishes a snapshot, who may commit it, and how it is distributed again.

Pure functions from facts to decisions (``journal``, ``permit``, ``retain``, ``state_assignment``), the
manifest as bytes (``manifest``, ``decode``), storage (``storage``, ``store``), and ``repository`` that
strings them together.  ``recovery`` finds what to restore, ``verification`` what is damaged; ``local_backup``
keeps copies near the slots.
Read ``docs/design/002-journal-and-fencing.md`` before changing the journal.
"""
