"""The watcher on the API server in memory: it raises in the stack of the write that breaks a law."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from cluster.fake.server import ChangeView, FakeKube
from cluster.kube.resources import PODS, Object, Resource
from cluster.objects.pods import Pod
from cluster.process.clock import Clock
from tests.laws.changes import WATCHED, Change, Maker
from tests.laws.claims import FOLLOWED, ClaimedPods
from tests.laws.watcher import LawWatcher


def unknown() -> None:
    """Nobody knows the writer."""


def watch_memory(
    kube: FakeKube,
    clock: Clock,
    *,
    leeway: float = 0.0,
    maker: Callable[[], Maker | None] = unknown,
    claims: bool = False,
) -> LawWatcher:
    """A watcher that sees everything that is stored there from now on; what is there already is only known.

    What it finds is raised by the write itself, and again by ``check``: who swallows it hides nothing.

    Args:
        kube: the server.
        clock: its clock.
        leeway: seconds between the read and the write of an honest decision: 0 where nothing happens between
            the two; more where a rival acts just before a call, or time passes there.
        maker: says who is writing at this moment, and what they know.
        claims: whether pods may have devices by claims.
    """
    watcher = LawWatcher(clock, leeway=leeway)
    claimed = ClaimedPods(clock) if claims else None

    def see(view: ChangeView) -> None:
        resource = WATCHED.get(view.plural) or (FOLLOWED.get(view.plural) if claimed else None)
        if resource is None:
            return
        before, after = _typed(resource, view.before), _typed(resource, view.after)
        before_it = claimed.before(before) if claimed and view.plural == PODS.plural else before
        changed = [*claimed.note(view.plural, before, after)] if claimed else []
        if view.plural in WATCHED:
            shown = claimed.shown(after) if claimed and isinstance(after, Pod) else after
            told(view.plural, before_it, shown, view.version)
        for one, other in changed:
            told(PODS.plural, one, other, view.version)

    def told(plural: str, before: Object | None, after: Object | None, version: str) -> None:
        change = Change(
            plural=plural, before=before, after=after, version=version, instant=clock.now(), maker=maker()
        )
        watcher.see(change)

    for resource in WATCHED.values():
        watcher.know(resource.plural, kube.list(resource).items)
    kube.on_change(see)
    return watcher


def _typed(resource: Resource[Any], raw: Mapping[str, Any] | None) -> Object | None:
    obj: Object | None = None if raw is None else msgspec.convert(raw, resource.type)
    return obj
