"""How long tests wait for what must happen: so long that only what hangs ever reaches it."""

PATIENCE_S = 600.0
"""For one thing to happen."""
PROGRAM_S = 1500.0
"""For a whole program; less than pytest's own limit for a test, which would not say what was waited for."""
