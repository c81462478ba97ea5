"""The schema, one step a file, forward and back; ``booking.store.schema`` runs them.

A step is never changed once it was released: databases depend on it.
"""
