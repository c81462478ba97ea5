"""Requests to the API server as values: caller, verb, object, and the changes of a write. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

Json = dict[str, Any]

WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
"""HTTP methods that change something."""


@dataclass(frozen=True)
class Place:
    """What a path of the API server names; a field that it does not name is empty."""

    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def place_of(path: str) -> Place:
    """Read ``/api/v1/namespaces/NS/pods/NAME/binding`` and similar paths; ``/readyz`` names no resource."""
    match [unquote(part) for part in path.strip("/").split("/")]:
        case ["api", _, *rest] | ["apis", _, _, *rest] if rest:
            return _place(rest)
    return Place()


def _place(parts: list[str]) -> Place:
    match parts:
        case ["namespaces", namespace, resource, *rest]:
            name, subresource = (*rest, "", "")[:2]
            return Place(resource, namespace, name, subresource)
    resource, name, subresource = (*parts, "", "")[:3]
    return Place(resource, "", name, subresource)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A request that a client sends through the proxy."""

    verb: str
    """The HTTP method."""
    target: str
    """Path and query, as received."""
    caller: str = ""
    """The component that calls: its User-Agent up to the first slash."""
    body: bytes = b""

    @cached_property
    def place(self) -> Place:
        """What its path names: resource, namespace, object."""
        return place_of(urlsplit(self.target).path)

    @cached_property
    def query(self) -> dict[str, str]:
        """Parameters of its query; of one that occurs more than once, the last value."""
        return {key: values[-1] for key, values in parse_qs(urlsplit(self.target).query).items()}

    @property
    def is_watch(self) -> bool:
        """Whether it is a watch, whose answer does not end by itself."""
        return self.query.get("watch") in {"true", "1"}

    @property
    def is_dry_run(self) -> bool:
        """Whether it is a dry run, which changes nothing."""
        return "dryRun" in self.query

    @property
    def is_write(self) -> bool:
        """Whether it changes something, or would if it were no dry run."""
        return self.verb in WRITES

    @cached_property
    def content(self) -> Json:
        """The body; empty if it is not a JSON object."""
        try:
            return msgspec.json.decode(self.body or b"{}", type=Json)
        except msgspec.MsgspecError:
            return {}

    @cached_property
    def step(self) -> str:
        """The kind of call, without caller and object: ``PATCH pods +hold``, ``POST pods/eviction``.

        For a patch it names every annotation, label and field that is set (+) or removed (-).
        """
        kind = "/".join(filter(None, (self.place.resource, self.place.subresource)))
        words = [self.verb, kind]
        if self.verb == "PATCH":
            words += _changes(self.content)
        if self.is_dry_run:
            words.append("dry run")
        return " ".join(words)

    def __str__(self) -> str:
        where = "/".join(filter(None, (self.place.namespace, self.place.name)))
        return f"{self.caller or 'somebody'}: {self.step}" + (f" of {where}" if where else "")


def _changes(patch: Json) -> Iterator[str]:
    metadata = patch.get("metadata") or {}
    for table in ("annotations", "labels"):
        for key, value in sorted((metadata.get(table) or {}).items()):
            yield _sign(given=value is not None) + key.rpartition("/")[2]
    if "finalizers" in metadata:
        yield _sign(given=bool(metadata["finalizers"])) + "finalizers"
    for part in sorted(patch.keys() - {"metadata", "apiVersion", "kind"}):
        for key, value in sorted(_fields(part, patch[part])):
            yield _sign(given=value is not None) + key


def _fields(part: str, value: object) -> list[tuple[str, object]]:
    return [(str(key), each) for key, each in value.items()] if isinstance(value, dict) else [(part, value)]


def _sign(*, given: bool) -> str:
    return "+" if given else "-"
