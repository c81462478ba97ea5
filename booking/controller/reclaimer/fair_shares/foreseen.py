"""Events on waiting pods that say when GPUs are taken back for them, if nothing changes."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from booking.controller.reclaimer.context import WriteEvent
from cluster import event_reasons
from cluster.decide.fairshare.settings import MINUTE, SECOND
from cluster.objects.pods import Pod

MOVED: Final = 10 * MINUTE
"""An instant that has moved by less is not said again."""


class Foreseen:
    """Writes one Event on each such pod, and another when it is another time. Not thread-safe."""

    def __init__(self, write_event: WriteEvent) -> None:
        self._write_event = write_event
        self._announced: dict[str, int] = {}
        """Uid of a unit -> the instant that was said, in microseconds since 1970."""

    def reconcile(self, due: Mapping[str, tuple[Pod, int]]) -> None:
        """Say what has not been said. Args: due: uid of a unit -> its pod, of a gang the first, and when."""
        self._announced = {uid: at for uid, at in self._announced.items() if uid in due}
        for uid, (pod, at) in due.items():
            before = self._announced.get(uid)
            if before is not None and abs(at - before) < MOVED:
                continue
            self._announced[uid] = at
            self._write_event(pod, event_reasons.SHARE_DUE, message(at))


def message(at: int) -> str:
    """What is said of an instant, in microseconds since 1970."""
    instant = datetime.fromtimestamp(-(-at // MINUTE) * MINUTE // SECOND, UTC)
    return (
        "Others hold GPUs that the fair share of its owner lacks. If nothing changes, they are taken back for"
        f" it at {instant:%Y-%m-%d %H:%M} UTC."
    )
