"""*Admin*: maintenance, exemptions, all bookings, the policy in force, audit and refused requests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
from flask import Response, request

from booking.eviction import end_effects
from booking.policy.limits import Limits, limit_values
from booking.policy.policy import meaning
from booking.server.errors import ClusterError, RefusedError, UnknownError
from booking.server.policy_history import SUBJECT
from booking.server.records import Record
from booking.server.service.idempotency import Key
from booking.server.store_records import Filters
from booking.server.web.pages.csrf import FIELD as CSRF
from booking.server.web.pages.form_key import FIELD as ONCE
from booking.server.web.pages.form_key import key_of, new_token
from booking.server.web.pages.form_result import UNWRITTEN, gpus, model_title
from booking.server.web.pages.interfaces import PageParts
from booking.server.web.pages.layout import PageLayout, Visit, page_mark, same_page
from booking.server.web.pages.site_clock import BadTimeError
from booking.server.web.problems import FORBIDDEN, ProblemError

TABS: Final = (
    ("/admin", "Maintenance"),
    ("/admin/exemptions", "Exemptions"),
    ("/admin/bookings", "Bookings and pods"),
    ("/admin/policy", "Policy"),
    ("/admin/audit", "Audit"),
    ("/admin/denied", "Denied demand"),
)
"""Address -> title."""
_STORED: Final = "stored"
_ENDED: Final = "ended"
_UNENDED: Final = "unended"
_DONE: Final = {
    "booked": "Booked. It is guaranteed from now on; its owner sees who has booked it.",
    _STORED: f"The booking {UNWRITTEN}",
    "blocked": "The maintenance is planned. The bookings that it affects show it.",
    "unblocked": "The maintenance is removed.",
    "exempted": "The exemption is granted.",
    "unexempted": "The exemption has ended.",
    _ENDED: "The booking has ended; its owner sees your reason.",
    _UNENDED: "The booking's end is stored, but not written to the cluster yet: the Kubernetes API server"
    " does not answer in time. Until it does, nothing changes for pods.",
    "cancelled": "The booking is cancelled; its owner sees your reason.",
    "evicted": "The eviction is ordered; the owner of the pod sees your reason.",
}
_PAGE: Final = 50
_POLICIES: Final = 20
_MOST: Final = 200
"""Rows of a page of bookings, maintenance or exemptions."""
_LONGEST_NUMBER: Final = 9
"""Digits of a number at most."""
_MOMENT: Final = timedelta(seconds=1)


@dataclass(frozen=True)
class Refused:
    """A form that was not accepted: which one, why, and its contents."""

    form: str
    messages: tuple[str, ...]


class AdminPages:
    """``/admin`` and its actions."""

    def __init__(self, parts: PageParts, frame: PageLayout) -> None:
        self._parts = parts
        self._frame = frame
        self._bookings = parts.bookings

    # --- addresses -----------------------------------------------------------------------------------
    def maintenance(self) -> Response:
        """``GET /admin``."""
        return self._maintenance(self._visit())

    def block(self) -> Response:
        """``POST /admin``: plan maintenance."""
        visit = self._visit()

        def act() -> str:
            self._bookings.add_block(
                visit.who,
                node=_text("node"),
                start=_instant(visit, "start", visit.clock.now),
                end=_instant(visit, "end"),
                reason=_text("reason"),
                model=_text("model") or None,
                count=_count(_text("count")),
                key=_key(),
            )
            return "blocked"

        return self._done(visit, act, "/admin", again=self._maintenance)

    def unblock(self, block_id: str) -> Response:
        """``POST /admin/blocks/ID/remove``."""
        visit = self._visit()

        def act() -> str:
            self._bookings.remove_block(visit.who, block_id)
            return "unblocked"

        return self._done(visit, act, "/admin", again=self._maintenance)

    def exemptions(self) -> Response:
        """``GET /admin/exemptions``."""
        return self._exemptions(self._visit())

    def exempt(self) -> Response:
        """``POST /admin/exemptions``."""
        visit = self._visit()

        def act() -> str:
            self._bookings.add_exemption(
                visit.who,
                user=_text("user"),
                start=_instant(visit, "start", visit.clock.now),
                end=_instant(visit, "end"),
                limits=limits_in(request.form.get("limits", "")),
                reason=_text("reason"),
                model=_text("model") or None,
                key=_key(),
            )
            return "exempted"

        return self._done(visit, act, "/admin/exemptions", again=self._exemptions)

    def unexempt(self, exemption_id: str) -> Response:
        """``POST /admin/exemptions/ID/remove``."""
        visit = self._visit()

        def act() -> str:
            self._bookings.remove_exemption(visit.who, exemption_id)
            return "unexempted"

        return self._done(visit, act, "/admin/exemptions", again=self._exemptions)

    def bookings(self) -> Response:
        """``GET /admin/bookings``: all users' bookings, and the form to evict a pod."""
        return self._all_bookings(self._visit())

    def end(self, booking_id: str) -> Response:
        """``POST /admin/bookings/ID/end``: a running one is released, a planned one cancelled."""
        visit = self._visit()

        def act() -> str:
            self._parts.guarantee.demand()
            record = self._bookings.show(visit.who, booking_id)
            is_planned = record.state(visit.clock.now) == "planned"
            verb = self._bookings.cancel if is_planned else self._bookings.release
            ended = verb(visit.who, booking_id, reason=_text("reason"))
            if not self._parts.guarantee.written(ended):
                return _UNENDED
            return _ENDED if ended.released else "cancelled"

        return self._done(visit, act, "/admin/bookings", again=self._all_bookings)

    def evict(self) -> Response:
        """``POST /admin/pods/evict``."""
        visit = self._visit()

        def act() -> str:
            self._bookings.evict(visit.who, _text("namespace"), _text("pod"), _text("reason"), key=_key())
            return "evicted"

        return self._done(visit, act, "/admin/bookings", again=self._all_bookings)

    def policy(self) -> Response:
        """``GET /admin/policy``."""
        visit = self._visit()
        policy = self._parts.policy()
        manual = limit_values(Limits(zone=policy.zone))
        found = limit_values(policy.limits_for(user="", model="", now=visit.clock.now))
        policy_meaning = meaning(policy)
        scopes = {
            name: policy_meaning[name]
            for name in ("pools", "groups", "users", "nodes")
            if policy_meaning[name]
        }
        rows = [
            (limit, _shown(value), value != manual[limit])
            for limit, value in found.items()
            if limit != "zone"
        ]
        text = msgspec.json.format(msgspec.json.encode(scopes), indent=2).decode() if scopes else ""
        before = self._bookings.audit(visit.who, subject=SUBJECT, limit=_POLICIES).entries
        return self._page(
            visit,
            "admin_policy.html",
            policy=policy,
            rows=rows,
            scopes=text,
            trouble=self._parts.policy_trouble(),
            versions=[(one.at, one.after or {}) for one in before],
        )

    def audit(self) -> Response:
        """``GET /admin/audit``."""
        visit = self._visit()
        page = self._bookings.audit(visit.who, after=page_mark(), limit=_PAGE)
        return self._page(
            visit, "admin_audit.html", entries=page.entries, following=page.following, details=_details
        )

    def denied(self) -> Response:
        """``GET /admin/denied``."""
        visit = self._visit()
        page = self._bookings.denied(visit.who, after=page_mark(), limit=_PAGE)
        return self._page(
            visit, "admin_denied.html", entries=page.entries, following=page.following, gpus=gpus
        )

    # --- helpers -------------------------------------------------------------------------------------
    def _visit(self) -> Visit:
        visit = self._frame.visit()
        if not visit.who.is_administrator:
            raise ProblemError(FORBIDDEN, "Only administrators of bookings may see this page.")
        return visit

    def _done(
        self,
        visit: Visit,
        act: Callable[[], str],
        address: str,
        *,
        again: Callable[[Visit, Refused], Response],
    ) -> Response:
        """Run an action, then redirect to the address with the word for the result (``_DONE``)."""
        try:
            what = act()
        except RefusedError as error:
            messages = tuple(visit.clock.localized(each.message) for each in error.violations) or (
                str(error),
            )
        except (BadTimeError, UnknownError, ClusterError) as error:
            messages = (str(error),)
        else:
            location = address + same_page(done=what)
            return Response(status=HTTPStatus.SEE_OTHER, headers={"Location": location})
        return again(visit, Refused(request.path, messages))

    def _maintenance(self, visit: Visit, refused: Refused | None = None) -> Response:
        page = self._bookings.block_page(visit.who, after=page_mark(), limit=_MOST)
        devices = self._devices(visit)
        nodes = sorted({node for on in devices.values() for node in on})
        return self._page(
            visit,
            "admin_blocks.html",
            refused,
            blocks=page.entries,
            following=page.following,
            nodes=nodes,
            models=sorted(devices),
            title=model_title,
        )

    def _devices(self, visit: Visit) -> Mapping[str, Mapping[str, int]]:
        """Model -> node -> number of existing GPUs."""
        now = visit.clock.now
        overview = self._parts.bookings.overview(visit.who, now, now.replace(microsecond=0) + _MOMENT)
        return overview.capacity.devices

    def _exemptions(self, visit: Visit, refused: Refused | None = None) -> Response:
        page = self._bookings.exemptions(visit.who, after=page_mark(), limit=_MOST)
        return self._page(
            visit,
            "admin_exemptions.html",
            refused,
            exemptions=page.entries,
            following=page.following,
            shown=_shown,
            models=sorted(self._devices(visit)),
            title=model_title,
            limit_names=Limits.__struct_fields__,
        )

    def _all_bookings(self, visit: Visit, refused: Refused | None = None) -> Response:
        page = self._bookings.list(visit.who, Filters(past=False), after=page_mark(), limit=_MOST)
        unknown = self._parts.unknown_capacity()
        at_risk = frozenset[str]() if unknown else self._parts.bookings.at_risk(page.entries)
        rows = [_row(record, visit, at_risk) for record in page.entries]
        return self._page(
            visit,
            "admin_bookings.html",
            refused,
            rows=rows,
            following=page.following,
            of_pods=end_effects.before(self._parts.terms),
        )

    def _page(self, visit: Visit, template: str, refused: Refused | None = None, **values: Any) -> Response:
        what = request.args.get("done", "")
        return self._frame.page(
            template,
            visit,
            status=HTTPStatus.UNPROCESSABLE_ENTITY if refused else HTTPStatus.OK,
            tabs=TABS,
            tab=next(
                (address for address, _ in reversed(TABS) if request.path.startswith(address)), "/admin"
            ),
            done=self._done_message(what),
            is_well=what not in {_STORED, _UNENDED},
            refused=refused,
            texts=request.form,
            once=new_token(),
            **values,
        )

    def _done_message(self, what: str) -> str | None:
        """The message about the action that was just done."""
        message = _DONE.get(what)
        return f"{message} {end_effects.after(self._parts.terms)}" if what == _ENDED else message


def _key() -> Key | None:
    """The key of the submitted form: a second click plans, grants or evicts nothing more."""
    contents = urlencode(
        [(name, text) for name, text in request.form.items(multi=True) if name not in (CSRF, ONCE)]
    )
    return key_of(f"{request.path}?{contents}".encode())


def limits_in(text: str) -> Mapping[str, Any]:
    """The limits of an exemption, one per line, as the policy file writes them: ``longest: P21D``."""
    found: dict[str, Any] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        limit, _, value = line.partition(":")
        found[limit.strip()] = _value(value.strip())
    return found


def _value(text: str) -> str | int | bool | None:
    if text.lstrip("-").isdecimal() and text.isascii() and len(text) <= _LONGEST_NUMBER:
        return int(text)
    words: dict[str, bool | None] = {"true": True, "false": False, "none": None, "null": None}
    return words.get(text.lower(), text)


def _row(record: Record, visit: Visit, at_risk: frozenset[str]) -> dict[str, Any]:
    return {
        "id": record.id,
        "user": record.user,
        "title": gpus(record.count, record.model, record.memory),
        "state": record.state(visit.clock.now),
        "at_risk": record.id in at_risk,
        "start": visit.clock.moment(record.start),
        "end": visit.clock.moment(record.end),
        "nodes": ", ".join(sorted({place.node for place in record.places})),
    }


def _details(change: Mapping[str, Any] | None) -> str:
    """The state before or after a change, as an audit entry keeps it, for people; empty for none."""
    return "" if change is None else msgspec.json.format(msgspec.json.encode(change), indent=2).decode()


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _text(name: str) -> str:
    return request.form.get(name, "").strip()


def _instant(visit: Visit, name: str, otherwise: datetime | None = None) -> datetime:
    text = _text(name)
    return otherwise if otherwise is not None and not text else visit.clock.read(text)


def _count(text: str) -> int | None:
    """GPUs; empty means all. A text that is not a number matches none of a node."""
    if not text:
        return None
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER else 0
