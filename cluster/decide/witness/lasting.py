"""Where may a pod be placed that nobody will ever take away: does every booking keep its place (law L5)?

Whoever may be evicted is no danger to a booking. A pod that stays for ever, one of a namespace that an
administrator has spared, a DaemonSet's, is one like a device that was lost. Asked by the extender, and told
by whoever explains why such a pod waits.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from cluster.decide.witness.scene import Scene
from cluster.decide.witness.stage import Stage, scene_in, settings
from cluster.decide.witness.supply import Share, share


class Lasting:
    """One instant: which nodes bear somebody who stays. Remembers what it has made."""

    def __init__(self, stage: Stage, shares: Mapping[str, Share] | None = None) -> None:
        """Take the instant.

        Args:
            stage: the instant.
            shares: what each node has then, where that is known.
        """
        self._stage = stage
        self._shares = shares
        self._scenes: dict[str, Scene | None] = {}

    def bears(self, node: str, devices: int, models: AbstractSet[str]) -> bool:
        """Whether every booking keeps its place when so many devices of a node are had for good.

        Args:
            node: its name.
            devices: how many.
            models: of which, in label form; empty for any: then whichever of the node's it is.
        """
        theirs = self._known().get(node)
        there = [model for model in theirs.devices if not models or model in models] if theirs else []
        return all(self._bears(model, node, devices) for model in there)

    def _bears(self, model: str, node: str, devices: int) -> bool:
        if model not in self._scenes:
            (setting,) = settings(self._stage, [model], self._known())
            self._scenes[model] = scene_in(setting, self._stage.instant.now, is_all=True)
        known = self._scenes[model]
        return known is None or known.bears(node, devices)

    def _known(self) -> Mapping[str, Share]:
        if self._shares is None:
            instant = self._stage.instant
            self._shares = {name: share(view, instant) for name, view in instant.views.items()}
        return self._shares
