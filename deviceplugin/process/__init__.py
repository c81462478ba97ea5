"""What keeps the agent answering whatever happens around it: log lines, loops, the end."""
