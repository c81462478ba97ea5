"""Binds: choosing devices, posting the Binding, finding out its outcome."""
