"""What can be guaranteed: capacity, blocks, the plan in which every accepted booking has a place. Pure."""
