"""What keeps the agent answering whatever happens around it: lines of its log, its loops."""
