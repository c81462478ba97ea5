"""Whether a request can be booked, which rules it breaks, and what could be booked instead. Pure."""
