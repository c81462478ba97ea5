"""The schema, one step per file, forward and back; ``booking.server.store.schema`` runs them.

A released step is never changed: databases depend on it.
"""
