"""Which pods must leave for a booked pod that fits nowhere: the plan, and all that it is made of. Pure."""
