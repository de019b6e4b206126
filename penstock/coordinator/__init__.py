"""Runs a job from the driver: when to take a snapshot, what to commit, when to restart.

``coordinator.py`` decides (events in, instructions out, no I/O); ``driver.py`` carries it out through the
ports of ``ports.py``; ``event_loop.py`` has the threads; ``start.py`` puts these together.
"""
