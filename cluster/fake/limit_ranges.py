"""LimitRanges of containers, as the admission plugin ``LimitRanger`` applies them to pods."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from cluster import names
from cluster.fake.errors import refusal
from cluster.fake.store import Store
from cluster.kube.errors import Request
from cluster.objects.quantity import parse_amount

Json = dict[str, Any]

LIMIT_RANGES: Final = "limitranges"
_KINDS: Final = {"containers": "container", "initContainers": "init container"}


def stored_limits(obj: Json) -> Json:
    """A LimitRange with the defaults that follow from a maximum, a default and a minimum."""
    return {
        **obj,
        "spec": {"limits": [_completed(limit) for limit in (obj.get("spec") or {}).get("limits") or ()]},
    }


def _completed(limit: Json) -> Json:
    if limit.get("type") != "Container":
        return limit
    default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
    requests = {**(limit.get("min") or {}), **default, **(limit.get("defaultRequest") or {})}
    return {**limit, "default": default, "defaultRequest": requests}


def limited(store: Store, pod: Json) -> Json:
    """The pod with the amounts that its containers do not name, and the record of them."""
    for limit in _limits(store, pod):
        recorded: list[str] = []
        lists = {
            group: [_filled(one, limit, kind, recorded) for one in pod["spec"][group]]
            for group, kind in _KINDS.items()
            if pod["spec"].get(group)
        }
        if recorded:
            text = f"LimitRanger plugin set: {'; '.join(recorded)}"
            annotations = {**(pod["metadata"].get("annotations") or {}), names.LIMIT_RANGER: text}
            metadata = {**pod["metadata"], "annotations": annotations}
            pod = {**pod, "metadata": metadata, "spec": {**pod["spec"], **lists}}
    return pod


def check_limits(request: Request, store: Store, pod: Json) -> None:
    """Refuse amounts above a maximum or below a minimum.

    Raises:
        Forbidden: there is one.
    """
    resources = [one.get("resources") or {} for group in _KINDS for one in pod["spec"].get(group) or ()]
    for limit in _limits(store, pod):
        most, least = limit.get("max") or {}, limit.get("min") or {}
        for one in resources:
            for key, given in (one.get("limits") or {}).items():
                if key in most and parse_amount(str(given)) > parse_amount(str(most[key])):
                    words = f"maximum {key} usage per Container is {most[key]}, but limit is {given}"
                    raise _forbidden(request, pod, words)
            for key, given in (one.get("requests") or {}).items():
                if key in least and parse_amount(str(given)) < parse_amount(str(least[key])):
                    words = f"minimum {key} usage per Container is {least[key]}, but request is {given}"
                    raise _forbidden(request, pod, words)


def _limits(store: Store, pod: Json) -> Iterator[Json]:
    namespace = pod["metadata"].get("namespace")
    for state in store.table(LIMIT_RANGES).all(namespace):
        yield from (one for one in state.obj["spec"]["limits"] if one.get("type") == "Container")


def _filled(container: Json, limit: Json, kind: str, recorded: list[str]) -> Json:
    resources = dict(container.get("resources") or {})
    for part, key, word in (("requests", "defaultRequest", "request"), ("limits", "default", "limit")):
        named: Mapping[str, Any] = resources.get(part) or {}
        missing = {one: amount for one, amount in (limit.get(key) or {}).items() if one not in named}
        if missing:
            resources[part] = {**named, **missing}
            recorded.append(f"{', '.join(sorted(missing))} {word} for {kind} {container['name']}")
    return {**container, "resources": resources} if resources else container


def _forbidden(request: Request, pod: Json, why: str) -> Exception:
    name = pod["metadata"].get("name") or "Unknown"
    return refusal(request, 403, "Forbidden", f'pods "{name}" is forbidden: {why}')
