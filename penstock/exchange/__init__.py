"""How records get from one task to the next: partitioners, channels, the input gate, the wire."""
