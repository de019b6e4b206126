"""Event time: where timestamps and watermarks come from, and one watermark out of many."""
