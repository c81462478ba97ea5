"""Amounts of devices in thousandths: ``WHOLE`` is a whole GPU, a share is less."""

from typing import Final

WHOLE: Final = 1000
"""All of one device."""

Amounts = dict[str, int]
"""UUID -> thousandths of that device."""
