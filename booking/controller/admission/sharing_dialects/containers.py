"""A container's GPU limits as numbers, and the container with other ones.

Extended resources are whole numbers, and their requests equal their limits, so one number stands for both.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from booking.controller.gpu_stripping import GROUPS
from booking.wording import quoted
from cluster import names
from cluster.objects.quantity import QuantityError, parse_count

Json = Mapping[str, Any]

MOST_MIB: Final = 2**31 - 1
"""More than any GPU has, and no more than a signed number of 32 bits holds."""
PERCENTAGES: Final = (names.GPU_MEMORY_PERCENTAGE, names.GPU_CORES)
HAMI_AMOUNTS: Final = (names.GPU_MEMORY, *PERCENTAGES)
"""The amounts that a translated pod has."""
_MOST: Final = {names.GPU_MEMORY: MOST_MIB, names.ALIYUN_MEMORY: MOST_MIB} | dict.fromkeys(PERCENTAGES, 100)
_KINDS: Final = ("limits", "requests")


class ShareRefusedError(ValueError):
    """The pod asks for shares in a way that cannot be granted. The text is one sentence for its creator."""


def containers(spec: Json) -> Iterator[Json]:
    """The init containers and containers."""
    for group in GROUPS:
        yield from spec.get(group) or ()


def changed(spec: Json, change: Callable[[Json], Json]) -> Json:
    """The spec with every init container and container changed."""
    return {**spec, **{group: [change(one) for one in spec[group]] for group in GROUPS if spec.get(group)}}


def named(container: Json) -> dict[str, str]:
    """The resources that a container names, as limits or as requests, with their amounts as written."""
    resources = container.get("resources") or {}
    found = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    return {key: str(value) for key, value in found.items()}


def count(container: Json, resource: str) -> int:
    """The number of a resource, 0 where it is not named.

    Raises:
        ShareRefusedError: it is no whole number.
    """
    text = named(container).get(resource, "0")
    try:
        return parse_count(text)
    except QuantityError:
        raise out_of_range(container, resource) from None


def amounts(container: Json, resources: Collection[str]) -> dict[str, int]:
    """Those of the resources of which the container has more than 0.

    Raises:
        ShareRefusedError: an amount is no whole number, or larger than any.
    """
    found = {resource: count(container, resource) for resource in resources if resource in named(container)}
    for resource, number in found.items():
        if number > _MOST[resource]:
            raise out_of_range(container, resource)
    return {resource: number for resource, number in found.items() if number}


def gpus(container: Json) -> dict[str, int]:
    """GPU resource -> how many of it, those of which there are any.

    Raises:
        ShareRefusedError: a number is no whole number.
    """
    found = {
        resource: count(container, resource) for resource in filter(names.is_gpu_resource, named(container))
    }
    return {resource: number for resource, number in found.items() if number}


def in_several(spec: Json) -> Json | None:
    """The first container with shares of several GPUs; None if there is none."""
    return next((one for one in containers(spec) if gpus(one).get(names.SHARED_RESOURCE, 0) > 1), None)


def names_gpus(container: Json) -> bool:
    """Whether the container names a GPU resource, with the number 0 too."""
    return any(map(names.is_gpu_resource, named(container)))


def with_limits(container: Json, given: Mapping[str, int], *, without: Collection[str] = ()) -> Json:
    """The container with these limits and equal requests, and without some of its own."""
    before = container.get("resources") or {}
    numbers = {resource: str(number) for resource, number in given.items()}
    after = {
        kind: {**{k: v for k, v in (before.get(kind) or {}).items() if k not in without}, **numbers}
        for kind in _KINDS
    }
    return {**container, "resources": {**before, **after}}


def out_of_range(container: Json, resource: str, most: int | None = None) -> ShareRefusedError:
    """The refusal of a container's amount. Args: most: the largest, where an installation chose the unit."""
    unit = " percent" if resource in PERCENTAGES else " MiB" if resource == names.GPU_MEMORY else ""
    most = most or _MOST.get(resource)
    allowed = f"from 1 to {most}" if most else "of GPUs"
    text = quoted(named(container).get(resource, ""))
    return ShareRefusedError(
        f"Container {container.get('name', '')} has {resource}: {text}, which must be a whole number"
        f" {allowed}{unit}."
    )
