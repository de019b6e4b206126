"""Keyed and operator state.

``handles.py`` is what user code holds, ``keyed.py`` what the engine does with it, ``backend.py`` the contract
of what keeps it; ``heap`` and ``rocks`` do so, and ``files.py`` is how state becomes files.
"""
