"""Amounts of devices, in thousandths: a whole GPU is all of it, a share is less."""

from typing import Final

WHOLE: Final = 1000
"""All of one device."""

Amounts = dict[str, int]
"""UUID -> thousandths of that device."""
