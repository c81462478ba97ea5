"""The watcher on the API server in memory: it raises in the stack of the write that breaks a law."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from cluster.fake.server import ChangeView, FakeKube
from cluster.kube.resources import Object, Resource
from cluster.process.clock import Clock
from tests.laws.changes import Change, Maker
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
    watcher = LawWatcher(clock, leeway=leeway, claims=claims)

    def see(view: ChangeView) -> None:
        if resource := watcher.kinds.get(view.plural):
            change = Change(
                plural=view.plural,
                before=_typed(resource, view.before),
                after=_typed(resource, view.after),
                version=view.version,
                instant=clock.now(),
                maker=maker(),
            )
            watcher.see(change)

    for resource in watcher.kinds.values():
        watcher.know(resource.plural, kube.list(resource).items)
    kube.on_change(see)
    return watcher


def _typed(resource: Resource[Any], raw: Mapping[str, Any] | None) -> Object | None:
    obj: Object | None = None if raw is None else msgspec.convert(raw, resource.type)
    return obj
