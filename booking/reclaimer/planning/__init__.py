"""Whom a booked pod that fits nowhere needs to leave: the plan, and all that it is made of. Pure."""
