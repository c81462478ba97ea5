"""Who is on each device, how much it is used, and by which processes."""
