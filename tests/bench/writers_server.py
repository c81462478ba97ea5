"""The booking server's REST API over a real database; tokens are names, and the mirror is always up to date.

Run by ``bench_writers`` in a process of its own: ``writers_server FOLDER``; its first line is the port.
"""

import sys
from contextlib import closing
from datetime import UTC
from pathlib import Path

from prometheus_client import CollectorRegistry

from booking.eviction.settings import EvictionSettings
from booking.server.__main__ import LONGEST_BODY, THREADS
from booking.server.cluster_status import ClusterStatus
from booking.server.metrics import ServerMetrics
from booking.server.service import BookingService
from booking.server.store import open_store
from booking.server.web.anonymous_limits import AnonymousLimits
from booking.server.web.app import create_app
from booking.server.web.authentication import Authenticator
from booking.server.web.interfaces import Parts, Policy
from booking.server.web.rate_limits import RateLimits
from booking.server.web.request_guard import RequestGuard
from booking.server.web.roles import Roles
from cluster import names
from cluster.cache import ClusterCache
from cluster.decide.identity import Rule
from cluster.fake.server import FakeKube
from cluster.kube.token_review import Subject
from cluster.process import logs
from cluster.process.clock import SystemClock
from cluster.process.probes import serve
from tests.bench.bench_writers import CAPACITY, POLICY, url
from tests.bench.child import announce, await_end
from tests.fakes.bearers import BearerTokens

UNLIMITED = 10**9
"""Requests: writers must not be limited."""


class Names:
    """Every token is its user's name."""

    def owner_of(self, token: str) -> Subject:
        """The token's user."""
        return Subject(token)


class NoRoles:
    """Nobody is an administrator."""

    def may(self, who: Subject, verb: str, *, group: str, resource: str, namespace: str = "") -> bool:
        """False."""
        del who, verb, group, resource, namespace
        return False


class Written:
    """A mirror that is never behind."""

    def trigger(self) -> None:
        """There is nothing to do."""

    def written(self, change: int, timeout: float) -> bool:
        """True."""
        del change, timeout
        return True


def main(folder: Path) -> None:
    """Serve until standard input ends."""
    logs.configure(level="info")
    clock = SystemClock()
    rules = (Rule(source="kubernetes", match="(.+)", user=r"\1"),)
    with closing(open_store(url(folder))) as store:
        store.expect_writers()
        parts = Parts(
            bookings=BookingService(store, clock, POLICY, lambda: CAPACITY),
            live=ClusterStatus(
                ClusterCache(clock),
                FakeKube(clock),
                clock,
                EvictionSettings(),
                visibility=lambda: "load",
                unready_reason=lambda: None,
            ),
            mirror=Written(),
            not_guaranteed_reason=lambda: None,
            unknown_capacity=lambda: None,
            zone=lambda: UTC,
            policy=lambda _: Policy(version="", zone="UTC", limits={}),
            terms=EvictionSettings(),
            clock=clock,
            metrics=ServerMetrics(CollectorRegistry()),
        )
        roles = Roles(NoRoles(), clock)
        tokens = BearerTokens(Authenticator(Names(), rules, clock, roles, audience=names.AUDIENCE))
        often = RateLimits(clock, per_second=UNLIMITED, burst=UNLIMITED)
        guard = RequestGuard(tokens, often, AnonymousLimits(often))
        app = create_app(parts, guard, audience=names.AUDIENCE)
        server = serve(app, "127.0.0.1", 0, threads=THREADS, longest_body=LONGEST_BODY)
        announce(str(server.port))
        await_end()
        server.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
