"""What an eviction destroys, and the cheapest victims: for reclaimer, booking server and extender."""
