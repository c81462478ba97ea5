"""How long a test waits for anything."""

from typing import Final

PATIENCE: Final = 180.0
"""Seconds: generous, since waiting ends when it has come about."""
