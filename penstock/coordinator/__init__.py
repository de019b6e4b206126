"""The driver's brain: when to snapshot, what to commit, when to restart.

``coordinator.py`` decides (events in, instructions out, no I/O); ``runner.py`` carries it out.
"""
