"""Nodes with free devices of a model: kept between plans, and looked at again only where one has changed."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

MODELS: Final = 16
"""Number of models for which they are kept."""


class OfModel(Protocol):
    """The devices of one model on one node; see ``holder_cache.ModelHolders``."""

    @property
    def free(self) -> Collection[str]:
        """Those that nobody holds."""
        ...


class OfNode(Protocol):
    """The holders on one node."""

    @property
    def by_model(self) -> Mapping[str, OfModel]:
        """Model -> its devices and holders."""
        ...


@dataclass(slots=True)
class _Kept:
    """The nodes with free devices of one model."""

    free: dict[str, int] = field(default_factory=dict)
    """Node -> how many."""
    stale: set[str] = field(default_factory=set)
    """Nodes that have changed since."""


class FreeNodes:
    """For the models that were asked about last. For one thread."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}

    def changed(self, nodes: Iterable[str] | None) -> None:
        """These nodes may have changed; None: any of them."""
        if nodes is None:
            self._kept.clear()
            return
        for kept in self._kept.values():
            kept.stale.update(nodes)

    def of(self, nodes: Mapping[str, OfNode], model: str) -> Mapping[str, int]:
        """Node -> number of free devices of a model, of those with any. Not to be changed.

        Args:
            nodes: all nodes, as of now.
            model: of the devices.
        """
        kept = self._kept.pop(model, None)
        look_at: Iterable[str] = nodes if kept is None else kept.stale
        kept = kept or _Kept()
        for name in look_at:
            found = nodes[name].by_model.get(model) if name in nodes else None
            if found and found.free:
                kept.free[name] = len(found.free)
            else:
                kept.free.pop(name, None)
        kept.stale.clear()
        self._kept[model] = kept
        if len(self._kept) > MODELS:
            del self._kept[next(iter(self._kept))]
        return kept.free
