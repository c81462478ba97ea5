"""Keeps the agent responsive: asynchronous log lines, checks of its loops, a graceful end."""
