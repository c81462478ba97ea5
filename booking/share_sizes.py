"""The memory of a share as people write it: ``20Gi``, ``8192Mi``, ``8192``, ``25%``. Pure."""

import re
from collections.abc import Callable
from typing import Final

EXAMPLES: Final = '"20Gi", "8192Mi" (or "8192") or "25%"'
_AMOUNT: Final = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,6}))? ?(|mi|mib|gi|gib|%)", re.ASCII | re.IGNORECASE)
_UNITS: Final = {"": 1, "mi": 1, "mib": 1, "gi": 1024, "gib": 1024}
_ALL: Final = 100


class ShareSizeError(ValueError):
    """A text that is no amount of memory; the error's text is a message for the user."""


def mebibytes_of(text: str, offered: Callable[[], int | None]) -> int:
    """MiB of each GPU, rounded down.

    Args:
        text: as it was typed.
        offered: MiB that a GPU of the model offers, None if that is not known; called for percentages only.

    Raises:
        ShareSizeError: it is no amount, or a percentage of something unknown.
    """
    found = _AMOUNT.fullmatch(text.strip())
    if found is None:
        raise ShareSizeError(f"{text!r} is no amount of memory: write for example {EXAMPLES}.")
    decimals, unit = found[2] or "", found[3].lower()
    amount, part = int(found[1] + decimals), int("1" + "0" * len(decimals))
    if unit != "%":
        return amount * _UNITS[unit] // part
    if amount > _ALL * part:
        raise ShareSizeError(f"{text!r} is more than all: write at most 100%.")
    whole = offered()
    if whole is None:
        raise ShareSizeError(
            f"{text!r} of what is not known, because GPUs of this model are booked whole only."
        )
    return amount * whole // (_ALL * part)
