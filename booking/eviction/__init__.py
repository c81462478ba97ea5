"""Which pods may be evicted for a booked pod: the reclaimer evicts them, the booking server counts on it."""
