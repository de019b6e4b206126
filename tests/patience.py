"""How long tests wait for what must happen: so long that only what hangs ever reaches it."""

PATIENCE_S = 300.0
"""Less than pytest's own limit for a test, which would not say what was waited for."""
