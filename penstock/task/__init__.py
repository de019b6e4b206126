"""One subtask: its mailbox loop, its part of a snapshot, and the slot that hosts many of them."""
