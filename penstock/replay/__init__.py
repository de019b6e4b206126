"""Going back: programs run over a piece of the past, without touching the world.

``substitute.py`` runs a program with other sources and sinks than its own, ``replayed.py`` has those for
``penstock replay``, ``difference.py`` compares two such runs, ``forking.py`` is ``penstock fork``,
``debugger.py`` is ``penstock debug``.
"""
