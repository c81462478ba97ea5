"""What can be guaranteed: capacity, blocks, the plan that has a place for every accepted booking. Pure."""
