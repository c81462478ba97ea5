"""Which pods may be evicted for a booked pod: the reclaimer does it, the booking server counts on it."""
