"""One state of one object, as etcd keeps it: immutable bytes."""

from collections.abc import Mapping
from typing import Any

import msgspec

from cluster.kube.resources import Resource, T

Json = dict[str, Any]

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder()
_TYPED: dict[type, msgspec.json.Decoder[Any]] = {}


def plain(body: Mapping[str, Any]) -> Json:
    """A copy as it would come out of the wire."""
    copied: Json = _DECODER.decode(_ENCODER.encode(body))
    return copied


class State:
    """What an object was from one write to the next.

    ``obj`` is shared by the rooms of this package, which build new objects and never change one. Whoever is
    outside gets copies: ``copy`` or ``typed``.
    """

    __slots__ = ("_obj", "raw")

    def __init__(self, obj: Json) -> None:
        self.raw = _ENCODER.encode(obj)
        self._obj: Json | None = obj

    @property
    def obj(self) -> Json:
        """To be read, never to be changed."""
        return self.copy() if self._obj is None else self._obj

    @property
    def metadata(self) -> Json:
        """``metadata`` of the object; to be read."""
        metadata: Json = self.obj["metadata"]
        return metadata

    def copy(self) -> Json:
        """The object, for a caller that changes it."""
        copied: Json = _DECODER.decode(self.raw)
        return copied

    def typed(self, resource: Resource[T]) -> T:
        """The object as its struct."""
        return typed(self.raw, resource)

    def shrink(self) -> None:
        """Keep the bytes alone: this is history now."""
        self._obj = None


def typed(raw: bytes, resource: Resource[T]) -> T:
    """Read JSON into the struct of its kind."""
    decoder = _TYPED.get(resource.type)
    if decoder is None:
        decoder = _TYPED.setdefault(resource.type, msgspec.json.Decoder(resource.type))
    obj: T = decoder.decode(raw)
    return obj
