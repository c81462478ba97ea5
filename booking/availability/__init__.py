"""What can be promised: capacity, blocks, the plan in which every accepted booking has a place. Pure."""
