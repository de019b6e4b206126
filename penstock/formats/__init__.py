"""From bytes to values and back: the contract of value formats, and JSON by rows and by columns."""
