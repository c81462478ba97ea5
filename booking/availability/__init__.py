"""What can be promised: capacity, blocks, the witness that every accepted booking has a place. Pure."""
