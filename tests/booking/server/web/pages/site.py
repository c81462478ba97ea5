"""The pages over a real service and a real SQLite file; the cluster, tokens and mirror are fakes."""

import re
from dataclasses import is_dataclass
from datetime import datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
from flask import Flask
from jinja2 import Undefined, UndefinedError
from werkzeug.test import TestResponse

from booking.eviction.settings import EvictionSettings
from booking.policy.limits import Limits
from booking.policy.policy import Policy
from booking.principals import Principal
from booking.server.records import Place, Record
from booking.server.service import BookingService
from booking.server.store_records import Block
from booking.server.web.anonymous_limits import AnonymousLimits
from booking.server.web.app import create_app
from booking.server.web.mirror_barrier import MirrorBarrier
from booking.server.web.pages.blueprint import pages
from booking.server.web.pages.csrf import CsrfProtection, UserTokens
from booking.server.web.pages.interfaces import PageParts
from booking.server.web.pages.kept_form import KeptForms
from booking.server.web.rate_limits import RateLimits
from booking.server.web.request_guard import RequestGuard
from tests.booking.server.web.served import Served
from tests.fakes.objects import A100

ZONE = "Europe/Stockholm"
DAY = timedelta(days=1)
MANY = 1_000_000
"""Requests of one user that are answered at once."""


class UndefinedFieldFails(Undefined):
    """A template that reads a field which our object does not have fails: people would see an empty text."""

    def __init__(self, hint: str | None = None, obj: Any = None, *more: Any, **named: Any) -> None:
        super().__init__(hint, obj, *more, **named)
        if is_dataclass(obj) or isinstance(obj, msgspec.Struct):
            raise UndefinedError(self._undefined_message)


class Site(Served):
    """A booking server with pages, without its threads. It is Monday, 2 March 2026, 10:00 in Stockholm."""

    def __init__(
        self,
        folder: Path,
        limits: Limits | None = None,
        *,
        url: str | None = None,
        terms: EvictionSettings | None = None,
    ) -> None:
        super().__init__(folder, url=url, terms=terms)
        self.zone = ZoneInfo(ZONE)
        self.pods: dict[str, tuple[str, ...]] | None = {}
        self.policy = Policy(zone=ZONE)
        self.policy_trouble: str | None = None
        self.service = BookingService(
            self.store,
            self.clock,
            limits or self.ruling,
            lambda: self.capacity,
            evictions=self.evictions,
        )
        often = RateLimits(self.clock, per_second=1, burst=MANY)
        self.guard = RequestGuard(self.signing_in, often, AnonymousLimits(often))
        self.app = self._app()
        self.browser = self.app.test_client()

    def ruling(self) -> Policy:
        """The policy that is in force."""
        return msgspec.structs.replace(self.policy, visibility=self.visibility)

    def _app(self) -> Flask:
        parts = self.page_parts(self.guard, UserTokens(b"one key for all tests"))
        app = create_app(self.parts, self.guard, audience="gpu-booking", blueprints=[pages(parts)])
        app.jinja_env.undefined = UndefinedFieldFails
        return app

    def page_parts(
        self, guard: RequestGuard, csrf: CsrfProtection, kept: KeptForms | None = None
    ) -> PageParts:
        """The parts that the pages are built from."""
        return PageParts(
            bookings=self.service,
            live=self.live,
            policy=lambda: self.policy,
            policy_trouble=lambda: self.policy_trouble,
            guard=guard,
            csrf=csrf,
            kept=kept,
            guarantee=MirrorBarrier(self.mirror, lambda: self.not_guaranteed_reason, self._unknown),
            unknown_capacity=self._unknown,
            zone=lambda: self.zone,
            pods_of=lambda: self.pods,
            terms=self.terms,
            clock=self.clock,
        )

    def _unknown(self) -> str | None:
        return self.unknown_capacity

    def who(self, user: str) -> Principal:
        """The principal of a user name."""
        return Principal(user=user, name=user)

    def see(self, address: str, *, user: str = "alice", **named: Any) -> TestResponse:
        """A page."""
        return self.send("GET", address, user=user, **named)

    def send(self, method: str, address: str, *, user: str = "alice", **named: Any) -> TestResponse:
        """A request of a user."""
        headers = {"Authorization": f"Bearer {user}-token", **named.pop("headers", {})}
        return self.browser.open(address, method=method, headers=headers, **named)

    def add(
        self,
        start: datetime,
        end: datetime,
        *,
        user: str = "carol",
        model: str = A100,
        count: int = 1,
        node: str = "",
        **named: Any,
    ) -> Record:
        """A booking that is stored without being judged."""
        record = Record(
            id=named.pop("id", f"b-{self.store.change() + 1:010}"),
            user=user,
            model=model,
            count=count,
            topology="single-node" if count > 1 else "any",
            namespace=named.pop("namespace", None),
            start=start,
            end=end,
            created=min(start, self.clock.now()),
            plan=(Place(node, count),) if node else (),
            **named,
        )
        return self.store.write(lambda writing: writing.add(record))

    def block(self, block: Block) -> None:
        """Maintenance."""
        self.store.write(lambda writing: writing.block_add(block))


def token(answer: TestResponse) -> str:
    """The CSRF token in the forms of a page."""
    found = re.search(r'name="csrf" value="([^"]+)"', answer.text)
    assert found
    return found[1]


def page_text(answer: TestResponse) -> str:
    """The text of a page."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())
