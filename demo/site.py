"""The lab, running: the simulation with the demo's agents, whose GPUs are in use, and its booking server."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from booking.durations import Duration
from booking.eviction.settings import EvictionSettings
from booking.policy.fair_shares import FairShares
from booking.policy.limits import Limits
from booking.policy.policy import Policy
from booking.policy.values import Values
from booking.server.cluster_status import ShareHistory
from booking.server.cluster_status.share_history import EVERY as SAMPLED_EVERY
from booking.server.errors import StoreError
from booking.server.mirror.lease import MirrorLease
from booking.server.mirror.mirror import Mirror
from booking.server.records import Record
from booking.server.service import BookingService
from booking.server.service.device_orders import NodeGpus
from booking.server.service.evict_orders import PodOrders
from booking.server.store import Store, open_store
from cluster import names
from cluster.fake.server import ChangeView, FakeKube
from cluster.kube.access_review import ACCESS_REVIEWS
from cluster.kube.resources import NAMESPACES, PODS, RESOURCE_CLAIMS
from cluster.kube.token_review import TOKEN_REVIEWS
from cluster.objects.device_usage import encode_use
from cluster.objects.inventory import Device, encode_inventory
from cluster.process.clock import Clock
from demo.feed import Feed
from demo.lab.bookings import add_bookings
from demo.lab.initial_pods import initial_pods
from demo.lab.life import Life
from demo.lab.nodes import by_claims
from demo.lab.people import HUB, TEAMS, Tokens, is_administrator
from demo.lab.pods import CLAIM_TEMPLATE
from demo.lab.usage import User, measured
from demo.simulation import claim_devices
from demo.simulation.agent import Agent
from demo.simulation.kubelet import Kubelet
from demo.simulation.part import Part
from demo.simulation.server import Server
from demo.simulation.simulation import Simulation
from deviceplugin.allocation.share_limits import share_limits

NOTICE_SECONDS: Final = 20.0
"""Time that a victim has to save its work: long enough to be read, short enough to be waited for."""
SETTLES: Final = 12.0
"""Virtual seconds in which the pods that were there are taken on, and the plan is made."""
MIB: Final = 1 << 20
HISTORY: Final = 20_000
CALLS_KEPT: Final = 50
"""What the API server keeps of the past is little: a demo may run for days."""

BEGINNING: Final = (
    "Alice has booked an H100, and others use them all: start 1 GPU as alice, and see who makes way for her."
)

Soon = Callable[[Callable[[], object]], None]


def policy_of(zone: str) -> Policy:
    """The policy of the lab: generous enough that a visitor can book and book again."""
    limits: Values = {
        "cooldown": Duration(),
        "max_planned": 3,
        "max_active": 2,
        "shortest": Duration(seconds=3600),
        "longest": Duration(days=14),
        "horizon": Duration(days=90),
    }
    return Policy(zone=zone, visibility="names", defaults=limits, fair_shares=FairShares(mode="reclaim"))


class DemoAgent(Agent):
    """A node agent whose GPUs are in use."""

    def annotations(self) -> Mapping[str, str | None]:
        """How they are used, as the agent's monitor writes it."""
        pods = self._kubelet.pods
        parts = share_limits(self.devices, self._kubelet.holdings, pods)
        users: dict[str, list[User]] = {}
        for device in self.devices:
            holders = self._kubelet.holdings.holders({device.uuid})
            for pod in pods:
                uid = pod.metadata.uid
                if uid in holders:
                    limit = parts.get((device.uuid, uid))
                    memory = limit // MIB if limit else device.memory
                    users.setdefault(device.uuid, []).append(User(uid, pod.metadata.name, memory))
        for device, user in self._claiming():
            users.setdefault(device.uuid, []).append(user)
        return {names.USE: encode_use(measured(self.devices, users, self.clock.now()))}

    def _claiming(self) -> Iterator[tuple[Device, User]]:
        """The pods that have its GPUs by claims."""
        by_name = {device.claimed_as: device for device in self.devices if device.claimed_as}
        pods = {pod.metadata.uid: pod.metadata.name for pod in self._kubelet.pods if by_name}
        for claim in self.kube.list(RESOURCE_CLAIMS).items if pods else ():
            allocation = claim.status.allocation
            for result in allocation.devices.results if allocation else ():
                device = by_name.get(result.device) if result.pool == self.node else None
                if device is not None:
                    for one in claim.status.reserved_for:
                        if one.uid in pods:
                            yield device, User(one.uid, pods[one.uid], device.memory)


class RealWait:
    """A clock for requests of visitors: its time is the simulation's, and who waits really waits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def now(self) -> datetime:
        """The simulation's instant."""
        return self._clock.now()

    def monotonic(self) -> float:
        """The simulation's seconds."""
        return self._clock.monotonic()

    def wait(self, event: threading.Event, seconds: float) -> bool:
        """Wait for it, in real time: the simulation goes on meanwhile, in its own thread."""
        return event.wait(seconds)


class DemoMirror(Mirror):
    """A mirror whose rounds are the simulation's tasks."""

    def __init__(self, *arguments: Any, requested: Callable[[], None], **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._requested = requested

    def trigger(self) -> None:
        """Let the simulation's thread begin a round."""
        self._requested()


class DemoServer(Server):
    """The booking server of the demo; its web pages are ``demo.web``'s to serve."""

    def __init__(self, site: "Site", database: Path, rules: Policy) -> None:
        super().__init__(site, "server", database, Limits())
        self._site = site
        self.rules = rules

    def build(self) -> None:
        """With samples of who holds what."""
        super().build()
        self.shares = ShareHistory(
            self.cache,
            self.clock,
            EvictionSettings(),
            unready_reason=self.following.unready_reason,
            fair_shares=lambda: self.rules.fair_shares,
        )
        self.every(SAMPLED_EVERY, self.shares.reconcile)

    @property
    def opened_store(self) -> Store:
        """The database of a server that lives.

        Raises:
            StoreError: it does not.
        """
        if self.store is None:
            raise StoreError("The booking server does not run.")
        return self.store

    def new_mirror(self, store: Store, lease: MirrorLease) -> Mirror:
        """One for whose rounds visitors can wait."""
        return DemoMirror(
            self.kube,
            store,
            RealWait(self.clock),
            lease=lease,
            metrics=self.metrics,
            requested=lambda: self._site.soon(self.mirror_round),
            resources=self.nodes.resources,
        )

    def new_service(self, store: Store) -> BookingService:
        """With administrators' orders."""
        asking = self._site.kube.as_user(self.user)
        return BookingService(
            store,
            self.clock,
            lambda: self.rules,
            self.nodes.capacity,
            evictions=PodOrders(asking, home=names.NAMESPACE),
            gpus=NodeGpus(asking),
        )


class Site(Simulation):
    """The lab. After ``open`` one thread drives it; others' changes of objects reach it by ``soon``."""

    def __init__(
        self, folder: Path, devices: Mapping[str, tuple[Device, ...]], *, start: datetime, zone: str
    ) -> None:
        self._rules = policy_of(zone)
        self.gives_claims = any(map(by_claims, devices.values()))
        """Whether any node gives its GPUs by claims."""
        self._followers: dict[str, tuple[Part, ...]] | None = None
        """Kind -> who follows it, once all have started: on a large site most follow nothing but pods."""
        self._driver = threading.get_ident()
        self.soon: Soon = _at_once
        """Lets the driving thread do something."""
        super().__init__(
            folder,
            devices,
            start=start,
            notice_seconds=NOTICE_SECONDS,
            trusted_creators=(HUB,),
            fair_shares=self._rules.fair_shares,
            book_claims=self.gives_claims,
        )
        self.tokens = Tokens.new()
        self.kube.answer(TOKEN_REVIEWS, self._token_review)
        self.kube.answer(ACCESS_REVIEWS, lambda review: {"allowed": is_administrator(review["spec"]["user"])})
        self.feed = Feed(self.clock)
        self.kube.on_change(self.feed.changed)
        self.people = Life(self)

    def _token_review(self, review: Mapping[str, Any]) -> dict[str, Any]:
        owner = self.tokens.owner_of(review["spec"]["token"])
        if owner is None:
            return {"authenticated": False}
        user = {"username": owner.name, "groups": sorted(owner.groups)}
        return {"authenticated": True, "user": user, "audiences": review["spec"]["audiences"]}

    def new_kube(self) -> FakeKube:
        """One that forgets."""
        return FakeKube(self.clock, history=HISTORY, calls_kept=CALLS_KEPT)

    def new_server(self, database: Path, _policy: Limits, /) -> Server:
        """The demo's."""
        self.booking_server = DemoServer(self, database, self._rules)
        return self.booking_server

    def new_agent(self, kubelet: Kubelet, devices: tuple[Device, ...]) -> Agent:
        """The demo's."""
        return DemoAgent(self, kubelet, devices)

    def open(self, *, empty: bool) -> None:
        """Fill the lab, unless it is to be empty, and start everything."""
        for namespace in (names.NAMESPACE, *TEAMS):
            self.kube.put(NAMESPACES, {"metadata": {"name": namespace}})
        if self.gives_claims:
            self._offer_claims()
        if not empty:
            self._fill()
        self.begin()
        self._followers = {}
        if not empty:
            self.people.claim(())
        self.go_on(SETTLES)
        self.feed.clear()
        if not empty:
            self.people.begin()
            self.feed.note(BEGINNING)

    def _offer_claims(self) -> None:
        claim_devices.add_class(self.kube)
        for name, devices in self.devices.items():
            if by_claims(devices):
                claim_devices.publish(self.kube, name, devices)
        for namespace in TEAMS:
            claim_devices.template(self.kube, CLAIM_TEMPLATE, namespace)

    def _fill(self) -> None:
        now = self.clock.now()
        for name, devices in self.devices.items():
            self.add_node(name, {names.INVENTORY: encode_inventory(devices)})
        bookings = self._stored_bookings(now)
        for pod in initial_pods(self.devices, bookings, now):
            self.kube.put(PODS, pod)

    def _stored_bookings(self, now: datetime) -> Sequence[Record]:
        """Those that run or are planned; a database that was kept has its own."""
        with closing(open_store(f"sqlite:///{self.server.database}")) as store:
            if store.change():
                return store.records_ending_after(now)
            return store.write(lambda writing: add_bookings(writing, self.devices, now))

    def driven_by_this_thread(self) -> None:
        """From now on this thread drives the simulation."""
        self._driver = threading.get_ident()

    def followers(self, plural: str, /) -> Iterable[Part]:
        """Who follows a kind: nobody starts again here."""
        if self._followers is None:
            return super().followers(plural)
        if plural not in self._followers:
            self._followers[plural] = tuple(part for part in self.parts.values() if part.follows(plural))
        return self._followers[plural]

    def changed(self, change: ChangeView) -> None:
        """A visitor's change of an object is learned of by the thread that drives."""
        if threading.get_ident() == self._driver:
            super().changed(change)
        else:
            self.soon(lambda: super(Site, self).changed(change))


def _at_once(action: Callable[[], object]) -> None:
    action()
