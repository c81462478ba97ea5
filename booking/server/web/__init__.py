"""REST under ``/api/v1``: parses requests, calls the booking service, answers in JSON.

The only package, besides the composition root, that knows Flask. One file per concern; ``app`` puts them
together.
"""
