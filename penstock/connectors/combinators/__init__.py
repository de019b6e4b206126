"""Sources made of other sources: one after the other, a piece by time, a table read again and again."""
