"""The REST API over a real service and a real SQLite file; tokens and mirror are fakes."""

from collections import Counter
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from flask import Request
from flask.testing import FlaskClient
from prometheus_client import CollectorRegistry
from werkzeug.test import TestResponse

from booking.eviction.settings import EvictionSettings
from booking.policy.fair_shares import FairShares
from booking.policy.policy import Policy as BookingPolicy
from booking.policy.visibility import Visibility
from booking.principals import Principal
from booking.server.capacity.capacity import Capacity
from booking.server.cluster_status import ClusterStatus, ShareHistory
from booking.server.errors import UnknownGpuError, UnknownPodError
from booking.server.metrics import ServerMetrics
from booking.server.service import BookingService
from booking.server.service.context import GpuOrder, PodToEvict
from booking.server.store import open_store
from booking.server.web.anonymous_limits import AnonymousLimits
from booking.server.web.app import create_app
from booking.server.web.authentication import Authenticator
from booking.server.web.client_address import networks_of
from booking.server.web.interfaces import Parts, Policy
from booking.server.web.rate_limits import RateLimits
from booking.server.web.request_guard import RequestGuard
from booking.server.web.roles import Roles
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
"""Requests from one address that are answered at once, for clients that are not signed in."""


class FakeTokens:
    """Tokens name their owners: ``alice-token`` is alice's."""

    def __init__(self) -> None:
        self.names = {f"{name}-token": name for name in ("alice", "bob")}
        self.groups: frozenset[str] = frozenset()
        self.calls: Counter[str] = Counter()
        self.problem: ApiError | None = None

    def owner_of(self, token: str) -> Subject | None:
        """The owner of the token."""
        self.calls[token] += 1
        if self.problem:
            raise self.problem
        name = self.names.get(token)
        return Subject(name, self.groups) if name else None


class FakeAccess:
    """Administrators by name or by group."""

    def __init__(self) -> None:
        self.administrators: set[str] = set()
        self.calls: Counter[Subject] = Counter()
        self.problem: ApiError | None = None

    def may(self, who: Subject, verb: str, *, group: str, resource: str, namespace: str = "") -> bool:
        """Whether the subject is an administrator."""
        assert not namespace
        assert (verb, group, resource) == ("administer", names.DOMAIN, "bookings")
        self.calls[who] += 1
        if self.problem:
            raise self.problem
        return not self.administrators.isdisjoint({who.name, *who.groups})


class FakeSigningIn(BearerTokens):
    """Tokens by the real authenticator; some of their owners are administrators."""

    def __init__(self, authenticator: Authenticator) -> None:
        super().__init__(authenticator)
        self.administrators: set[str] = set()

    def principal_of(self, request: Request, *, asks_role: bool = True) -> Principal:
        """The user who sent the request."""
        who = super().principal_of(request, asks_role=asks_role)
        is_one = asks_role and who.user in self.administrators
        return msgspec.structs.replace(who, is_administrator=is_one)


class FakeEvictions:
    """Orders to evict pods, of which only one exists."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, str, str, str]] = []
        self.pod = PodToEvict(user="bob", booking="b-1", node="node-a", gpus=2, controller="Job/train")

    def order(self, namespace: str, pod: str, *, by: str, reason: str, at: datetime) -> None:
        """Record an order."""
        self.dry_run(namespace, pod, by=by, reason=reason, at=at)
        self.orders.append((namespace, pod, by, reason))

    def dry_run(self, namespace: str, pod: str, *, by: str, reason: str, at: datetime) -> PodToEvict:
        """The pod that would be evicted."""
        del by, reason, at
        if (namespace, pod) != ("research", "train-0"):
            raise UnknownPodError(f"There is no pod {pod} in {namespace}.")
        return self.pod


class FakeGpus:
    """Orders about GPUs, of one node with one GPU."""

    def __init__(self) -> None:
        self.orders: list[tuple[str, str, str, str]] = []

    def order(
        self, node: str, gpu: str, order: GpuOrder, *, message: str, at: datetime, dry_run: bool = False
    ) -> str:
        """Record an order, unless it is a dry run."""
        del at
        if (node, gpu) not in {("node-a", "0"), ("node-a", "GPU-0")}:
            raise UnknownGpuError(f"There is no GPU {gpu} in {node}.")
        if not dry_run:
            self.orders.append((node, "GPU-0", order, message))
        return "GPU-0"


class FakeMirror:
    """A mirror that writes at once, or not at all."""

    def __init__(self) -> None:
        self.writes = True
        self.calls: list[str | int] = []
        """``"trigger"`` for each trigger, and the number of each change that was waited for."""

    def trigger(self) -> None:
        """The database has changed."""
        self.calls.append("trigger")

    def written(self, change: int, timeout: float) -> bool:
        """Whether the change is in the cluster."""
        assert timeout == 10
        self.calls.append(change)
        return self.writes


class Served:
    """A booking server without its threads."""

    fair_shares = FairShares()
    """How GPUs without a booking are divided."""
    visibility: Visibility = "load"

    def __init__(
        self, folder: Path, *, url: str | None = None, terms: EvictionSettings | None = None
    ) -> None:
        self.clock = FakeClock()
        self.terms = terms or EvictionSettings()
        self.tokens = FakeTokens()
        self.mirror = FakeMirror()
        self.registry = CollectorRegistry()
        self.not_guaranteed_reason: str | None = None
        self.unknown_capacity: str | None = None
        self.file = folder / "bookings.db"
        self.store = open_store(url or f"sqlite:///{self.file}")
        self.capacity = Capacity({A100: {"node-a": 4, "node-b": 4}, A6000: {"node-a": 2}})
        self.evictions = FakeEvictions()
        self.gpus = FakeGpus()
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
            resources=lambda: self.capacity.resources,
            bookable=service.bookable,
            fair_shares=lambda: self.fair_shares,
            history=self.shares,
        )
        self.parts = Parts(
            bookings=service,
            live=self.live,
            mirror=self.mirror,
            not_guaranteed_reason=lambda: self.not_guaranteed_reason,
            unknown_capacity=lambda: self.unknown_capacity,
            zone=lambda: self.zone,
            policy=lambda model: Policy(
                version="v1", zone="UTC", limits={"longest": "P7D" if model == A6000 else "P14D"}
            ),
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

    @cached_property
    def shares(self) -> ShareHistory:
        """Who has held how many GPUs."""
        return ShareHistory(
            self.cache,
            self.clock,
            self.terms,
            unready_reason=lambda: self.unknown_capacity,
            fair_shares=FairShares,
        )

    def ruling(self) -> BookingPolicy:
        """The policy that is in force."""
        return BookingPolicy(visibility=self.visibility)

    def strangers(self, *proxies: str) -> AnonymousLimits:
        """Limits per address for clients that are not signed in."""
        limits = RateLimits(self.clock, per_second=1, burst=STRANGERS)
        return AnonymousLimits(limits, networks_of(proxies))

    def client_of(self, parts: Parts) -> FlaskClient:
        """A client of an API over these parts."""
        return create_app(parts, self.guard, audience="gpu-booking").test_client()

    def ask(self, method: str, path: str, *, user: str = "alice", **named: Any) -> TestResponse:
        """The answer to a request of a user."""
        headers = {"Authorization": f"Bearer {user}-token", **named.pop("headers", {})}
        return self.client.open(path, method=method, headers=headers, **named)

    def book(self, *, user: str = "alice", query: str = "", **fields: Any) -> TestResponse:
        """``POST /bookings``."""
        return self.ask("POST", BOOKINGS + query, user=user, json=fields)

    def booked(self, *, user: str = "alice", **fields: Any) -> str:
        """Store a booking; its id."""
        answer = self.book(user=user, **{"model": A100, "duration": "P2D", **fields})
        assert answer.status_code == 201, answer.text
        return str(answer.get_json()["id"])

    @property
    def stored(self) -> int:
        """Number of the newest change: how many changes were stored."""
        return self.store.change()


def problem(answer: TestResponse, status: int) -> dict[str, Any]:
    """The problem in an answer, which must be one."""
    assert answer.status_code == status, answer.text
    assert answer.content_type == PROBLEM
    body: dict[str, Any] = msgspec.json.decode(answer.data)
    assert body["status"] == status
    assert body["type"].startswith(f"tag:{names.DOMAIN},2026:")
    assert body["title"]
    assert body["detail"]
    assert "Traceback" not in answer.text
    return body


def rules(problem: dict[str, Any]) -> list[str]:
    """The rules of a problem's violations."""
    return [violation["rule"] for violation in problem["violations"]]


def about(problem: dict[str, Any]) -> dict[str, str]:
    """Field -> rule, of those violations of a problem that name a field."""
    return {v["field"]: v["rule"] for v in problem["violations"] if "field" in v}
