"""LimitRanges: what the API server fills into containers that name no amount.

The admission plugin ``LimitRanger`` runs before webhooks, and again after one has changed a pod. From a
maximum alone the API server makes a default: ``max: {nvidia.com/gpu: 2}`` gives two GPUs to every container
that names none. It writes on the pod what it has set (plugin/pkg/admission/limitranger, Kubernetes 1.37).
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from cluster import names
from cluster.objects.meta import Meta, Partial

Part = Literal["limits", "requests"]
Group = Literal["containers", "initContainers"]

_BEGINS: Final = "LimitRanger plugin set: "
_ENTRY: Final = re.compile(
    r"(?P<resources>.+) (?P<part>request|limit) for (?P<init>init )?container (?P<name>\S+)"
)


class Limit(Partial, frozen=True):
    """One entry of ``spec.limits``, as stored: a maximum has become a default."""

    type: str = ""
    default: dict[str, str | int] | None = None
    default_request: dict[str, str | int] | None = None


class LimitRangeSpec(Partial, frozen=True):
    """``spec`` of a LimitRange."""

    limits: tuple[Limit, ...] | None = None


class LimitRange(Partial, frozen=True):
    """A v1 LimitRange, with its defaults."""

    metadata: Meta = Meta()
    spec: LimitRangeSpec = LimitRangeSpec()


def gpu_defaults(ranges: Iterable[LimitRange]) -> frozenset[str]:
    """The GPU resources and amounts that these LimitRanges give to a container that names none."""
    limits = (limit for one in ranges for limit in one.spec.limits or () if limit.type == "Container")
    given = (key for limit in limits for key in {**(limit.default or {}), **(limit.default_request or {})})
    return frozenset(filter(names.is_gpu_request, given))


def filled_in(annotations: Mapping[str, str]) -> dict[tuple[Group, str], dict[Part, frozenset[str]]]:
    """What LimitRanges have set, by container: ``{("containers", "main"): {"limits": {"cpu"}}}``.

    Only the last of several LimitRanges that set something is on record.
    """
    text = annotations.get(names.LIMIT_RANGER, "")
    entries = text.removeprefix(_BEGINS).split("; ") if text.startswith(_BEGINS) else ()
    found: dict[tuple[Group, str], dict[Part, frozenset[str]]] = {}
    for entry in filter(None, map(_ENTRY.fullmatch, entries)):
        group: Group = "initContainers" if entry["init"] else "containers"
        part: Part = "limits" if entry["part"] == "limit" else "requests"
        found.setdefault((group, entry["name"]), {})[part] = frozenset(entry["resources"].split(", "))
    return found
