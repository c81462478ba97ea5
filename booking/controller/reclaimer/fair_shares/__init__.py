"""GPUs without a booking are given by fair shares: whose turn it is gets a hold."""
