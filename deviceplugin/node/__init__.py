"""What is written on and read from the Node, beside the inventory: labels, Events, orders about devices."""
