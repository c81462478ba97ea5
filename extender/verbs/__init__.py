"""What kube-scheduler asks before it binds: filter, prioritize, preempt. One verb per file."""
