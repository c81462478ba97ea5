"""Binds: devices are chosen, the Binding is posted, its outcome is found out."""
