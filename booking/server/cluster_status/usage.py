"""How GPUs are used, and who uses one without holding it, as far as a user may see it. Pure."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

import msgspec

from booking.server.cluster_status.viewer import Viewer
from cluster.objects.device_usage import DeviceUsage, NodeUsage, OverUser, Squatter, UseError, decode_use

OLD_AFTER: Final = timedelta(seconds=90)
"""Older measurements are not shown: agents report every 10 s by default, and at least once a minute."""


class UseNow(msgspec.Struct, frozen=True, kw_only=True):
    """A device; null is what the card does not say."""

    utilisation_percent: int | None
    memory_used_mib: int | None
    temperature_celsius: int | None
    power_watts: int | None


class SquatterNow(msgspec.Struct, frozen=True, kw_only=True):
    """A process on a device that its pod does not hold, or one of no pod; null is what may not be seen."""

    of_pod: bool
    """Whether it is a pod's at all."""
    namespace: str | None
    name: str | None
    user: str | None
    pid: int | None
    """Process id on its node; None for everybody but administrators."""
    command: str | None
    """What the process calls itself; None for everybody but administrators."""
    memory_used_mib: int | None


class Used:
    """The last report of one node's agent."""

    def __init__(self, text: str | None, now: datetime, viewer: Viewer) -> None:
        """Args: text: the annotation's value; an old or unreadable one counts as no report."""
        self._viewer = viewer
        self._use = _current(text, now)
        self._of = {device.uuid: device for device in self._use.devices} if self._use else {}

    def of(self, uuid: str) -> UseNow | None:
        """How a device is used; None if that is not known."""
        usage = self._of.get(uuid)
        return None if usage is None else _usage_now(usage)

    def memory(self, uuid: str, pod: str) -> int | None:
        """MiB that the processes of a pod use of a device."""
        usage = self._of.get(uuid)
        return (usage.pods or {}).get(pod) if usage else None

    def real(self, uuid: str) -> str | None:
        """UUID of the GPU that the kubelet has chosen for a numbered one; None if that is not known."""
        usage = self._of.get(uuid)
        return usage.real if usage else None

    @property
    def over_users(self) -> dict[str, OverUser]:
        """Uid -> what a pod uses beyond its share, where it uses most too much."""
        found: dict[str, OverUser] = {}
        for one in self._use.over_users if self._use else ():
            found.setdefault(one.uid, one)
        return found

    def squatters(self, uuid: str) -> tuple[SquatterNow, ...]:
        """Processes that use a device without holding it."""
        return tuple(self._squatters(uuid))

    def _squatters(self, uuid: str) -> Iterator[SquatterNow]:
        for one in self._use.squatters if self._use else ():
            if one.device == uuid:
                yield self._seen(one)

    def _seen(self, one: Squatter) -> SquatterNow:
        is_named, is_administrator = self._viewer.may_name_user(one.user), self._viewer.who.is_administrator
        return SquatterNow(
            of_pod=one.uid is not None,
            namespace=one.namespace if is_named else None,
            name=(one.name or one.uid) if is_named else None,
            user=one.user if is_named else None,
            pid=one.pid if is_administrator else None,
            command=one.command if is_administrator else None,
            memory_used_mib=one.memory,
        )


def _current(text: str | None, now: datetime) -> NodeUsage | None:
    try:
        use = decode_use(text) if text else None
    except UseError:
        return None
    return use if use and abs(now - use.at) < OLD_AFTER else None


def _usage_now(usage: DeviceUsage) -> UseNow:
    return UseNow(
        utilisation_percent=usage.utilisation,
        memory_used_mib=usage.memory,
        temperature_celsius=usage.temperature,
        power_watts=usage.power,
    )
