"""The booking server: the real service, store and mirror, wired as in ``booking.server``."""

import itertools
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from prometheus_client import CollectorRegistry

from booking.eviction.settings import EvictionSettings
from booking.policy.limits import Limits
from booking.principals import Principal
from booking.server.__main__ import FOLLOWED
from booking.server.errors import StoreError
from booking.server.metrics import ServerMetrics
from booking.server.mirror.lease import MirrorLease
from booking.server.mirror.mirror import EVERY, Mirror
from booking.server.node_capacity import NodeCapacity
from booking.server.plan_controller import EVERY as KEEPS
from booking.server.plan_controller import PlanController
from booking.server.records import BookingRequest, Record
from booking.server.service import BookingService
from booking.server.store import Store, open_store
from booking.server.web.mirror_barrier import PATIENCE
from cluster import names
from cluster.cache import CLAIM_KINDS, ClusterCache, Informers, with_expressions
from cluster.kube.clock_skew import clock_skew_reason
from demo.simulation.maker import Maker
from demo.simulation.part import NoAnswerError, Part
from demo.simulation.surroundings import Surroundings


class UnavailableError(Exception):
    """503: nothing can be guaranteed now."""


class Server(Part):
    """The one booking server."""

    latency = 0.02
    user = f"system:serviceaccount:{names.NAMESPACE}:{names.BOOKING_SERVER}"
    is_ours = True
    books_claims = False
    """Whether claims can be booked."""

    def __init__(self, world: Surroundings, name: str, database: Path, policy: Limits) -> None:
        super().__init__(world, name)
        self.database = database
        self.policy = policy
        self.store: Store | None = None
        self.problem: str | None = None
        """Why the database cannot be used."""
        self._numbers = itertools.count(1)
        """Of bookings, over all lives: chance would give each history other names."""

    def build(self) -> None:
        """As ``booking.server.__main__.build`` does, with one thread for all."""
        self.store = open_store(f"sqlite:///{self.database}")
        claims = with_expressions(names.DRA_DRIVER) if self.books_claims else None
        kinds = (*FOLLOWED, *CLAIM_KINDS) if claims else FOLLOWED
        self.cache = ClusterCache(self.clock, claims=claims)
        self.following = Informers(self.kube, self.cache, self.clock, namespace=names.NAMESPACE, kinds=kinds)
        self.nodes = NodeCapacity(
            self.cache, self.clock, EvictionSettings(), unready_reason=self.following.unready_reason
        )
        lease = MirrorLease(
            self.kube, self.clock, namespace=names.NAMESPACE, holder=f"{self.name}-{self.lives}"
        )
        self.registry = CollectorRegistry()
        self.metrics = ServerMetrics(self.registry)
        self.mirror = self.new_mirror(self.store, lease)
        self.wrong_clock = clock_skew_reason(self.kube.skew)
        self.plan_controller = PlanController(
            self.kube, self.store, self.clock, self.nodes, moved=self.mirror_round
        )
        self.bookings = self.new_service(self.store)
        self.follow(*self.following.reflectors)
        self.every(KEEPS, self.plan_controller.round)
        self.every(EVERY, self.mirror_round, is_sign_of_life=True)

    def new_mirror(self, store: Store, lease: MirrorLease) -> Mirror:
        """The mirror, without its thread."""
        return Mirror(
            self.kube,
            store,
            self.clock,
            lease=lease,
            metrics=self.metrics,
            resources=self.nodes.resources,
        )

    def new_service(self, store: Store) -> BookingService:
        """What people ask."""
        return BookingService(
            store, self.clock, self.policy, self.nodes.capacity, new_id=lambda: f"b-{next(self._numbers)}"
        )

    def died(self) -> None:
        """Its files are closed."""
        if self.store is not None:
            self.store.close()
            self.store = None

    def known(self) -> Maker:
        """With what its database is like."""
        store = self.store.store_id if self.store else None
        return replace(super().known(), store=store, problem=self.problem)

    # --- its database ----------------------------------------------------------------------------------
    def spoil(self) -> None:
        """From now on the database answers everything with an error."""
        self._rename("meta", "lost")
        self.problem = "no such table: meta"

    def mend(self) -> None:
        """It is as it was before."""
        self._rename("lost", "meta")
        self.problem = None

    def _rename(self, before: str, after: str) -> None:
        with closing(sqlite3.connect(self.database)) as connection:
            connection.execute(f"ALTER TABLE {before} RENAME TO {after}")

    def mirror_round(self) -> None:
        """The mirror writes what has changed, and tries once more where that fails."""
        if not self.mirror.round():
            self.after(1.0, self.mirror.round)

    # --- what people ask -------------------------------------------------------------------------------
    def book(self, user: str, request: BookingRequest) -> Record:
        """``POST /bookings``.

        Raises:
            UnavailableError: nothing can be guaranteed now.
            RefusedError: it breaks a rule.
        """
        return self._changed(lambda: self.bookings.create(_principal(user), request))

    def release(self, user: str, booking: str) -> Record:
        """``POST /bookings/<id>/release``."""
        return self._changed(lambda: self.bookings.release(_principal(user), booking))

    def cancel(self, user: str, booking: str) -> Record:
        """``DELETE /bookings/<id>``."""
        return self._changed(lambda: self.bookings.cancel(_principal(user), booking))

    def is_written(self, record: Record) -> bool:
        """Whether the change is written in the cluster: the server answers 201 or 200 only then."""
        return self.life.alive and self.mirror.written(record.change, PATIENCE)

    def _changed(self, change: Callable[[], Record]) -> Record:
        def answer() -> Record:
            unready_reason = self.wrong_clock() or self.mirror.unready_reason() or self.nodes.unready_reason()
            if unready_reason:
                raise UnavailableError(unready_reason)
            try:
                record = change()
            except StoreError as error:
                raise UnavailableError(str(error)) from error
            self.after(0.005, self.mirror_round)
            return record

        try:
            return self.respond(answer)
        except NoAnswerError as error:
            raise UnavailableError("The booking server does not answer.") from error


def _principal(user: str) -> Principal:
    return Principal(user=user, name=user)
