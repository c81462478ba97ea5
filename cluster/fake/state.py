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
    """A deep copy, as if it had been sent as JSON."""
    copied: Json = _DECODER.decode(_ENCODER.encode(body))
    return copied


class State:
    """An object as it was from one write to the next.

    ``obj`` is shared by the modules of this package, which build new objects and never change one. Code
    outside the package gets copies: ``copy`` or ``typed``.
    """

    __slots__ = ("_obj", "raw")

    def __init__(self, obj: Json) -> None:
        self.raw = _ENCODER.encode(obj)
        self._obj: Json | None = obj

    @property
    def obj(self) -> Json:
        """The object; read it, never change it."""
        return self.copy() if self._obj is None else self._obj

    @property
    def metadata(self) -> Json:
        """``metadata`` of the object; read it, never change it."""
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
        """Keep only the bytes, once this state is history."""
        self._obj = None


def typed(raw: bytes, resource: Resource[T]) -> T:
    """Read JSON into the struct of its kind."""
    decoder = _TYPED.get(resource.type)
    if decoder is None:
        decoder = _TYPED.setdefault(resource.type, msgspec.json.Decoder(resource.type))
    obj: T = decoder.decode(raw)
    return obj
