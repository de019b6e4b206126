"""Keyed and operator state: handles, timers, the heap backend, and how state becomes files."""
