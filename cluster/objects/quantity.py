"""Kubernetes quantities: amounts of any resource, and numbers of countable ones.

Source: k8s.io/apimachinery resource.Quantity. Extended resources are whole numbers, so only forms like
``"2"``, ``"2000m"`` and ``"2k"`` can occur for them.
"""

import re
from decimal import Decimal, InvalidOperation, Overflow
from functools import lru_cache
from typing import Final

_NUMBER: Final = re.compile(r"[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?")
"""Stricter than Python, whose numbers may have underscores, blanks around them and digits of any script."""
_SUFFIXES = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal("1e3"),
    "M": Decimal("1e6"),
    "G": Decimal("1e9"),
    "T": Decimal("1e12"),
    "P": Decimal("1e15"),
    "E": Decimal("1e18"),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}


_AMOUNTS: Final = 1_000
"""Number of texts to cache: nearly every pod has one of a few, and is read several times."""
_LARGEST: Final = 2**63 - 1
"""The largest number that the API server stores."""


class QuantityError(ValueError):
    """A text that is not a quantity, or no whole number where one is needed."""


@lru_cache(_AMOUNTS)
def parse_count(text: str) -> int:
    """A quantity as a whole number.

    Args:
        text: as in ``resources.limits``, e.g. ``"2"``.

    Returns:
        A number of devices, >= 0.

    Raises:
        QuantityError: it is not a quantity, negative, not whole, or larger than any quantity.
    """
    value = parse_amount(text)
    if value != value.to_integral_value():
        raise QuantityError(f"{text!r} is not a whole number of devices.")
    return int(value)


def parse_amount(text: str) -> Decimal:
    """A quantity as a number, e.g. of cores or bytes.

    Args:
        text: e.g. ``"500m"`` or ``"10Gi"``.

    Raises:
        QuantityError: it is not a quantity, negative, or larger than any quantity.
    """
    suffix = text.lstrip("+-0123456789.")
    number = text.removesuffix(suffix) if suffix in _SUFFIXES else text
    if not _NUMBER.fullmatch(number):
        raise QuantityError(f"{text!r} is not a Kubernetes quantity.")
    try:
        value = Decimal(number) * _SUFFIXES.get(suffix, Decimal(1))
    except (InvalidOperation, Overflow) as error:
        raise QuantityError(f"{text!r} is not a Kubernetes quantity.") from error
    if not 0 <= value <= _LARGEST:
        raise QuantityError(f"{text!r} is not an amount of anything.")
    return value
