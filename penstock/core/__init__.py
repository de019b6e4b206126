"""The words every other package speaks: ids, batches, signals, messages, clock, errors."""
