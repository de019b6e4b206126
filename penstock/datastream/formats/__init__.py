"""Formats of records. PyFlink's names."""
