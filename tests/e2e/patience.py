"""How long anything may take in a test on a whole cluster."""

from typing import Final

PATIENCE: Final = 180.0
"""Seconds: generous, since waiting ends when it has come about."""
