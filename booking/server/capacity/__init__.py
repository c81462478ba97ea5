"""How many GPUs of a model can be booked."""
