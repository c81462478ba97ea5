"""What happens, in sentences: the product's own Events, and how the visitors' pods fare."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal

from cluster import names
from cluster.fake.server import ChangeView
from cluster.kube.resources import EVENTS, PODS
from cluster.process.clock import Clock
from demo.lab.life import VISITORS

Json = Mapping[str, Any]
Mood = Literal["good", "bad", "plain"]

KEPT: Final = 60
"""So many of the newest entries are kept."""
PHASES: Final[Mapping[str, str]] = {"Running": "runs", "Succeeded": "is done", "Failed": "has ended"}


@dataclass(frozen=True)
class Entry:
    """One thing that has happened."""

    at: datetime
    namespace: str
    """Empty for a node."""
    name: str
    user: str
    """Whose pod it is; empty where it is nobody's."""
    text: str
    mood: Mood


class Feed:
    """Listens to the API server. ``newest`` may be asked by any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: deque[Entry] = deque(maxlen=KEPT)
        self._users: dict[str, str] = {}
        self.number = 0
        """How many entries there have been: it changes with every one."""

    def newest(self) -> Sequence[Entry]:
        """The newest entries, the newest first."""
        return tuple(reversed(self._entries.copy()))

    def clear(self) -> None:
        """Forget what has happened so far."""
        self._entries.clear()

    def note(self, text: str, *, name: str = "", mood: Mood = "plain") -> None:
        """Somebody has done something that the API server does not show."""
        self._add(Entry(self._clock.now(), "", name, "", text, mood))

    def changed(self, change: ChangeView) -> None:
        """A listener of ``FakeKube``."""
        if change.plural == EVENTS.plural and change.before is None and change.after is not None:
            self._event(change.after)
        elif change.plural == PODS.plural:
            self._pod(change.before, change.after)

    def _event(self, event: Json) -> None:
        about = event["involvedObject"]
        mood: Mood = "bad" if event.get("type") == "Warning" else "good"
        user = self._users.get(about.get("uid", ""), "")
        self._add(
            Entry(self._clock.now(), about.get("namespace", ""), about["name"], user, event["message"], mood)
        )

    def _pod(self, before: Json | None, after: Json | None) -> None:
        pod = after or before
        if pod is None:
            return
        meta = pod["metadata"]
        user = (meta.get("annotations") or {}).get(names.USER, "")
        if after is None:
            self._users.pop(meta["uid"], None)
        else:
            self._users[meta["uid"]] = user
        text = _fate(before, after) if user in VISITORS else None
        if text:
            mood: Mood = "good" if _has_begun(before, after) else "plain"
            self._add(Entry(self._clock.now(), meta["namespace"], meta["name"], user, text, mood))

    def _add(self, entry: Entry) -> None:
        self._entries.append(entry)
        self.number += 1


def _fate(before: Json | None, after: Json | None) -> str | None:
    """What has become of a pod, in a few words."""
    if after is None:
        return "is gone."
    if before is None:
        came_back = names.RECREATED_FROM in (after["metadata"].get("annotations") or {})
        return "is created again." if came_back else None
    was, now = (each.get("status", {}).get("phase", "Pending") for each in (before, after))
    if was != now and now in PHASES:
        node = after["spec"].get("nodeName", "")
        return f"{PHASES[now]} on {node}{_gpus(after)}." if now == "Running" else f"{PHASES[now]}."
    if after["metadata"].get("deletionTimestamp") and not before["metadata"].get("deletionTimestamp"):
        return "is asked to end."
    return None


def _has_begun(before: Json | None, after: Json | None) -> bool:
    was, now = ((each or {}).get("status", {}).get("phase") for each in (before, after))
    return bool(now == "Running" and was != now)


def _gpus(pod: Json) -> str:
    wanted = sum(
        int(_limits(container).get(names.GPU_RESOURCE, 0)) for container in pod["spec"]["containers"]
    )
    if any(names.SHARED_RESOURCE in _limits(container) for container in pod["spec"]["containers"]):
        return ", with a share of a GPU"
    if pod["spec"].get("resourceClaims"):
        return ", with GPUs by claim"
    if not wanted:
        return ", without a GPU"
    return f", with {wanted} GPU{'s' if wanted > 1 else ''}"


def _limits(container: Json) -> Json:
    return container.get("resources", {}).get("limits") or {}
