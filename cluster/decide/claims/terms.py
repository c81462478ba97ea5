"""What a claim's request demands of a device, and how it is judged as kube-scheduler will judge it. Pure.

kube-scheduler looks at the expressions of the DeviceClass first, then at those of the request, and at no
further one after one that is false. An error ends its search, on whichever device and node it is met; so an
expression that is unknown for one device makes the whole answer unknown. A device has the capacity that is
asked for if it has at least as much under exactly that name; one that can be shared, while so much is left.
Source: k8s.io/dynamic-resource-allocation 0.37 (structured/internal).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from cluster.objects.claims import Selector
from cluster.objects.quantity import QuantityError, parse_amount

Entry = Mapping[str, Any]
"""A device as a ResourceSlice has it."""
Judged = Callable[[str, str, Entry], bool | None]
"""(expression, driver, device) -> whether the device satisfies it; None if that cannot be said."""


@dataclass(frozen=True, slots=True)
class Terms:
    """All of these must be true of a device."""

    expressions: tuple[str, ...] = ()
    """CEL, in the order in which they are evaluated."""
    capacity: tuple[tuple[str, str], ...] = ()
    """(name, the least amount) of each."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The devices of the cluster that satisfy some terms for certain."""

    uuids: frozenset[str] = frozenset()
    models: frozenset[str] = frozenset()
    unknown: str | None = None
    """Why some device cannot be judged here, a clause."""
    shared: bool | None = False
    """Whether several claims can have them; None if that is true of some of them only."""
    each: int | None = 0
    """How many each node has that has any, healthy or not; None if they have different numbers."""


def terms_of(selectors: Iterable[Selector], capacity: Mapping[str, Any] | None) -> Terms:
    """The terms of a request: ``capacity`` as the API has it."""
    wanted = (capacity or {}).get("requests") or {}
    return Terms(
        tuple(one.cel.expression for one in selectors if one.cel),
        tuple(sorted((name, str(amount)) for name, amount in wanted.items())),
    )


def is_shared(device: Entry) -> bool:
    """Whether several claims can have a device, each a part of it."""
    return bool(device.get("allowMultipleAllocations"))


def verdict(terms: Terms, driver: str, device: Entry, judged: Judged) -> bool | str:
    """Whether a device satisfies the terms; why that cannot be said, a clause, if it comes to that."""
    for expression in terms.expressions:
        found = judged(expression, driver, device)
        if found is None:
            return f"the expression {expression} cannot be evaluated here"
        if not found:
            return False
    return all(_has(device, name, amount) for name, amount in terms.capacity)


def _has(device: Entry, name: str, amount: str) -> bool:
    there = (device.get("capacity") or {}).get(name)
    try:
        return there is not None and parse_amount(str(there["value"])) >= parse_amount(amount)
    except QuantityError:
        return False
