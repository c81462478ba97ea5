"""The REST API over a real service and a real SQLite file; tokens and mirror are fakes."""

from collections import Counter
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any

import msgspec
from flask import Request
from flask.testing import FlaskClient
from prometheus_client import CollectorRegistry
from werkzeug.test import TestResponse

from booking.capacity import Capacity
from booking.cluster_status import ClusterStatus
from booking.errors import UnknownGpuError, UnknownPodError
from booking.eviction_settings import EvictionSettings
from booking.policy.policy import Policy as BookingPolicy
from booking.policy.visibility import Visibility
from booking.principals import Principal
from booking.server_metrics import ServerMetrics
from booking.service import BookingService
from booking.service.context import GpuOrder, PodToEvict
from booking.store import open_store
from booking.web.anonymous_limits import AnonymousLimits
from booking.web.app import create_app
from booking.web.authentication import Authenticator
from booking.web.client_address import networks_of
from booking.web.interfaces import Parts, Policy
from booking.web.rate_limits import RateLimits
from booking.web.request_guard import RequestGuard
from booking.web.roles import Roles
from cluster import names
from cluster.cache import ClusterCache
from cluster.decide.identity import DEFAULT_RULES
from cluster.fake.clock import FakeClock
from cluster.fake.server import FakeKube
from cluster.kube.errors import ApiError
from cluster.kube.token_review import Subject
from tests.fakes.bearers import BearerTokens
from tests.fakes.objects import A100, A6000

BOOKINGS = "/api/v1/bookings"
AVAILABILITY = "/api/v1/availability"
PROBLEM = "application/problem+json"
BURST = 50
"""Requests of one user that are answered at once."""
STRANGERS = 60
"""Requests from one address that are answered at once, of those who are not signed in."""


class FakeTokens:
    """Tokens are what they say: ``alice-token`` is alice's."""

    def __init__(self) -> None:
        self.names = {f"{name}-token": name for name in ("alice", "bob")}
        self.groups: frozenset[str] = frozenset()
        self.asked: Counter[str] = Counter()
        self.problem: ApiError | None = None

    def owner_of(self, token: str) -> Subject | None:
        """Whose it is."""
        self.asked[token] += 1
        if self.problem:
            raise self.problem
        name = self.names.get(token)
        return Subject(name, self.groups) if name else None


class FakeAccess:
    """Some are administrators, by name or by group."""

    def __init__(self) -> None:
        self.administrators: set[str] = set()
        self.asked: Counter[Subject] = Counter()
        self.problem: ApiError | None = None

    def may(self, who: Subject, verb: str, *, group: str, resource: str) -> bool:
        """Whether one is."""
        assert (verb, group, resource) == ("administer", names.DOMAIN, "bookings")
        self.asked[who] += 1
        if self.problem:
            raise self.problem
        return not self.administrators.isdisjoint({who.name, *who.groups})


class FakeSigningIn(BearerTokens):
    """Tokens by the real authenticator; some of their owners are administrators."""

    def __init__(self, authenticator: Authenticator) -> None:
        super().__init__(authenticator)
        self.administrators: set[str] = set()

    def principal_of(self, request: Request) -> Principal:
        """Who asks."""
        who = super().principal_of(request)
        return msgspec.structs.replace(who, is_administrator=who.user in self.administrators)


class FakeEvictions:
    """Orders to evict, of one pod that there is."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, str, str, str]] = []
        self.pod = PodToEvict(user="bob", booking="b-1", node="node-a", gpus=2, controller="Job/train")

    def order(self, namespace: str, pod: str, *, by: str, reason: str, at: datetime) -> None:
        """Write one."""
        self.dry_run(namespace, pod, by=by, reason=reason, at=at)
        self.orders.append((namespace, pod, by, reason))

    def dry_run(self, namespace: str, pod: str, *, by: str, reason: str, at: datetime) -> PodToEvict:
        """See which pod it is."""
        del by, reason, at
        if (namespace, pod) != ("research", "train-0"):
            raise UnknownPodError(f"There is no pod {pod} in {namespace}.")
        return self.pod


class FakeGpus:
    """Orders about GPUs, of one node with one GPU."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, str, str, str]] = []

    def order(
        self, node: str, gpu: str, order: GpuOrder, *, said: str, at: datetime, dry_run: bool = False
    ) -> str:
        """Write one."""
        del at
        if (node, gpu) not in {("node-a", "0"), ("node-a", "GPU-0")}:
            raise UnknownGpuError(f"There is no GPU {gpu} in {node}.")
        if not dry_run:
            self.orders.append((node, "GPU-0", order, said))
        return "GPU-0"


class FakeMirror:
    """A mirror that writes, or does not, at once."""

    def __init__(self) -> None:
        self.writes = True
        self.told: list[str | int] = []
        """Pokes and the changes that were waited for."""

    def poke(self) -> None:
        """The database has changed."""
        self.told.append("poke")

    def written(self, change: int, timeout: float) -> bool:
        """Whether the change is in the cluster."""
        assert timeout == 10
        self.told.append(change)
        return self.writes


class Served:
    """A booking server without its threads."""

    def __init__(
        self, folder: Path, *, url: str | None = None, terms: EvictionSettings | None = None
    ) -> None:
        self.clock = FakeClock()
        self.terms = terms or EvictionSettings()
        self.tokens = FakeTokens()
        self.mirror = FakeMirror()
        self.registry = CollectorRegistry()
        self.no_promises: str | None = None
        self.unknown_capacity: str | None = None
        self.file = folder / "bookings.db"
        self.store = open_store(url or f"sqlite:///{self.file}")
        self.capacity = Capacity({A100: {"node-a": 4, "node-b": 4}, A6000: {"node-a": 2}})
        self.evictions = FakeEvictions()
        self.gpus = FakeGpus()
        self.visibility: Visibility = "load"
        service = BookingService(
            self.store,
            self.clock,
            self.ruling,
            lambda: self.capacity,
            evictions=self.evictions,
            gpus=self.gpus,
        )
        self.zone: tzinfo = UTC
        self.cache, self.kube = ClusterCache(self.clock), FakeKube(self.clock)
        self.live = ClusterStatus(
            self.cache,
            self.kube,
            self.clock,
            self.terms,
            visibility=lambda: self.visibility,
            unready_reason=lambda: self.unknown_capacity,
        )
        self.parts = Parts(
            bookings=service,
            live=self.live,
            mirror=self.mirror,
            no_promises=lambda: self.no_promises,
            unknown_capacity=lambda: self.unknown_capacity,
            zone=lambda: self.zone,
            policy=lambda _: Policy(version="v1", zone="UTC", limits={"longest": "P14D"}),
            terms=self.terms,
            clock=self.clock,
            metrics=ServerMetrics(self.registry),
        )
        self.access = FakeAccess()
        self.roles = Roles(self.access, self.clock)
        self.authenticator = Authenticator(
            self.tokens, DEFAULT_RULES, self.clock, self.roles, audience="gpu-booking"
        )
        self.signing_in = FakeSigningIn(self.authenticator)
        often = RateLimits(self.clock, per_second=1, burst=BURST)
        self.guard = RequestGuard(self.signing_in, often, self.strangers())
        self.client = self.client_of(self.parts)

    def ruling(self) -> BookingPolicy:
        """The policy that is in force."""
        return BookingPolicy(visibility=self.visibility)

    def strangers(self, *proxies: str) -> AnonymousLimits:
        """Who counts those who are not signed in."""
        limits = RateLimits(self.clock, per_second=1, burst=STRANGERS)
        return AnonymousLimits(limits, networks_of(proxies))

    def client_of(self, parts: Parts) -> FlaskClient:
        """A client of an API that is made of these parts."""
        return create_app(parts, self.guard, audience="gpu-booking").test_client()

    def ask(self, method: str, path: str, *, user: str = "alice", **named: Any) -> TestResponse:
        """A request of somebody's."""
        headers = {"Authorization": f"Bearer {user}-token", **named.pop("headers", {})}
        return self.client.open(path, method=method, headers=headers, **named)

    def book(self, *, user: str = "alice", query: str = "", **fields: Any) -> TestResponse:
        """``POST /bookings``."""
        return self.ask("POST", BOOKINGS + query, user=user, json=fields)

    def booked(self, *, user: str = "alice", **fields: Any) -> str:
        """A booking that is stored; its id."""
        answer = self.book(user=user, **{"model": A100, "duration": "P2D", **fields})
        assert answer.status_code == 201, answer.text
        return str(answer.get_json()["id"])

    @property
    def stored(self) -> int:
        """Number of the newest change: how often anything was stored."""
        return self.store.change()


def problem(answer: TestResponse, status: int) -> dict[str, Any]:
    """The problem in an answer, which must be one."""
    assert answer.status_code == status, answer.text
    assert answer.content_type == PROBLEM
    told: dict[str, Any] = msgspec.json.decode(answer.data)
    assert told["status"] == status
    assert told["type"].startswith(f"tag:{names.DOMAIN},2026:")
    assert told["title"]
    assert told["detail"]
    assert "Traceback" not in answer.text
    return told


def rules(told: dict[str, Any]) -> list[str]:
    """The rules of a problem's violations."""
    return [violation["rule"] for violation in told["violations"]]


def about(told: dict[str, Any]) -> dict[str, str]:
    """Field -> rule of a problem's violations that are about one."""
    return {v["field"]: v["rule"] for v in told["violations"] if "field" in v}
