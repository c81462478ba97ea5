"""The verbs that kube-scheduler calls before it binds: filter, prioritize, preempt. One verb per file."""
