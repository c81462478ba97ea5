"""Where booked pods may be placed so that every promise stays placeable: the witness over a picture.

What has not changed since the last question is not made anew; nothing at all is made for a model of which
nobody has booked several devices on one node, and of whose nodes none has maintenance.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from cluster.decide.witness import Scene
from cluster.decide.witness.lasting import Lasting
from cluster.decide.witness.stage import Setting, Stage, scene_in, settings
from cluster.decide.witness.supply import Instant, whole_devices
from cluster.objects.bookings import Booking
from cluster.picture.picture import Picture
from cluster.picture.shares import Shares


@dataclass(frozen=True, slots=True)
class Places:
    """One instant: which nodes are right for a booked pod."""

    scenes: Mapping[str, Scene]

    def allow(self, booking: Booking, node: str, need: int, *, kept: str | None = None) -> bool:
        """Whether a pod of the booking that needs so many devices may be placed on a node.

        ``kept``: the node on which devices are kept for it; that was decided when they were.
        """
        known = self.scenes.get(booking.spec.model)
        return known is None or node == kept or known.allows(booking.name, node, need)

    def planned(self, booking: Booking, node: str) -> int:
        """How many devices of the booking are planned there that its pods do not have yet."""
        known = self.scenes.get(booking.spec.model)
        return 0 if known is None else known.has(booking.name, node)


EVERYWHERE = Places({})
"""Every node is right."""


class Witness:
    """Makes ``Places`` out of a picture; under the picture's lock, or for one thread."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._known: tuple[object, ...] = ()
        self._places = EVERYWHERE
        self._lasting_known: tuple[object, ...] = ()
        self._lasting: Lasting | None = None
        self._shares = Shares()
        self._scenes: dict[str, tuple[Setting, datetime, Scene | None]] = {}

    def places(self, now: datetime) -> Places:
        """Which nodes are right now."""
        with self._picture.locked() as ledger:
            watch = self._picture.watch()
            models, blocks = watch.whole(now), watch.blocks
            if not models and not blocks:
                return EVERYWHERE
            cover = self._picture.cover(now)
            instant = self._picture.instant(now, cover)
            known = (ledger.generation, *self._known_of(instant))
            if known != self._known:
                stage = self._stage(instant)
                self._places, self._known = self._made(stage, _models(stage, models)), known
            return self._places

    def lasting(self, now: datetime) -> Lasting:
        """Which nodes bear, now, a pod that nobody will ever take away."""
        with self._picture.locked() as ledger:
            instant = self._picture.instant(now, self._picture.cover(now))
            known = (ledger.generation, instant.namespaces, instant.quiet, *self._known_of(instant))
            if self._lasting is None or known != self._lasting_known:
                self._lasting = Lasting(self._stage(instant), self._shares.of(instant))
                self._lasting_known = known
            return self._lasting

    def _known_of(self, instant: Instant) -> tuple[object, ...]:
        """What tells two instants apart beside the ledger's generation."""
        return (
            self._picture.bookings,
            self._picture.watch().blocks,
            tuple((uid, booking.name) for uid, booking in sorted(instant.cover.items())),
            instant.gone,
            _minute(instant.now),
        )

    def _stage(self, instant: Instant) -> Stage:
        with self._picture.locked() as ledger:
            return Stage(
                instant=instant,
                bookings=self._picture.bookings,
                blocks=self._picture.watch().blocks,
                holds=dict(ledger.holds),
            )

    def _made(self, stage: Stage, models: frozenset[str]) -> Places:
        """Most of what happens changes no scene: that of before has answers already."""
        minute = _minute(stage.instant.now)
        before, self._scenes = self._scenes, {}
        for setting in settings(stage, models, self._shares.of(stage.instant)):
            known = before.get(setting.model)
            if known is None or known[:2] != (setting, minute):
                known = (setting, minute, scene_in(setting, stage.instant.now))
            self._scenes[setting.model] = known
        found = {model: one for model, (_, _, one) in self._scenes.items() if one is not None}
        return self._places if found == self._places.scenes else Places(found)


def _minute(now: datetime) -> datetime:
    """Time alone changes a scene, too; as often as this it is looked at."""
    return now.replace(second=0, microsecond=0)


def _models(stage: Stage, whole: frozenset[str]) -> frozenset[str]:
    """Maintenance concerns every model that there is."""
    if not stage.blocks:
        return whole
    return frozenset(
        model for view in stage.instant.views.values() for model, _ in whole_devices(view.devices)
    )
