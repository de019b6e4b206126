"""Delta Lake and Iceberg tables, and what writing to both has in common."""
