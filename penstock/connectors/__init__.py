"""Sources and sinks: the two contracts, and one folder per system."""
