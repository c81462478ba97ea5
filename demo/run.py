"""The demo's composition root: the lab, its booking server, the bar above its pages, one port on loopback."""

import fcntl
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from booking.eviction.settings import EvictionSettings
from booking.policy.limits import zone_of
from booking.policy_file import PolicyFile
from booking.server.__main__ import Backends, application
from booking.server.settings import ServerSettings
from booking.server.web.login.sessions import Login, Sessions
from booking.server.web.pages.site_clock import SiteClock
from cluster import names
from cluster.kube.errors import ApiError
from cluster.process.clock import Clock
from cluster.process.lifecycle import Process
from cluster.process.probes import Server as WebServer
from cluster.process.probes import serve
from demo.actions import Actions
from demo.lab.nodes import devices_of
from demo.lab.people import ALICE, subject_of
from demo.pace import Pace
from demo.site import NOTICE_SECONDS, Site
from demo.web import bar
from demo.web.doorway import ENTER, Doorway
from demo.web.visitors import Visitors

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

LOOPBACK: Final = "127.0.0.1"
LOCK: Final = "demo.lock"
THREADS: Final = 8
DAY: Final = 86400.0
LONG: Final = 10 * 365 * DAY
"""Seconds that a session lasts: days go by quickly here."""
OFTEN: Final = 1000


class DemoError(Exception):
    """The demo cannot be shown; the text says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a visitor has asked for."""

    port: int
    nodes: int
    empty: bool
    keep: Path | None
    """Where the database stays; None: it goes with the demo."""
    zone: str
    """The site's time zone."""


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A demo that is being served."""

    process: Process
    site: Site
    pace: Pace
    address: str
    """What lets a visitor in."""
    url: str
    """Of the REST API."""


@contextmanager
def folder_of(keep: Path | None) -> Iterator[Path]:
    """The folder of the database: one that goes with the demo, or one that stays, for one demo at a time.

    Raises:
        DemoError: it cannot be written, or another demo uses it.
    """
    if keep is None:
        try:
            made = Path(tempfile.mkdtemp(prefix=names.DEMO))
        except OSError as error:
            raise DemoError(
                f"No folder for the database could be made: {error.strerror or error}."
            ) from error
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)
        return
    try:
        keep.mkdir(parents=True, exist_ok=True)
        lock = (keep / LOCK).open("w")
    except OSError as error:
        raise DemoError(f"The folder {keep} cannot be written: {error.strerror}.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DemoError(f"Another demo uses the folder {keep}: name another one with --keep.") from error
        try:
            yield keep
        finally:
            (keep / LOCK).unlink(missing_ok=True)


def build(options: Options, folder: Path, clock: Clock) -> Demo:
    """Build the demo: it is filled and listens already; its threads are not started.

    Raises:
        ServeError: the port cannot be listened on.
        StoreError: the database cannot be used.
    """
    process = Process("demo", clock)
    gate = Gate()
    web = serve(gate, LOOPBACK, options.port, threads=THREADS)
    process.closing("web", web.close)
    try:
        start = clock.now().replace(microsecond=0)
        site = Site(folder, devices_of(options.nodes), start=start, zone=options.zone)
        process.closing("simulation", site.close)
        site.open(empty=options.empty)
    except BaseException:
        web.close()
        raise
    pace = Pace(site, clock)
    site.soon = pace.soon
    visitors = Visitors(web.port, _sessions(site))
    gate.app = _doorway(site, pace, visitors, web)

    def drive(stop: Any) -> None:
        site.driven_by_this_thread()
        pace.run(stop)

    process.thread("simulation", drive)
    url = f"http://{LOOPBACK}:{web.port}"
    return Demo(process=process, site=site, pace=pace, address=f"{url}{ENTER}?key={visitors.secret}", url=url)


class Gate:
    """Takes the port before there is anything behind it: a taken one is noticed at once."""

    def __init__(self) -> None:
        self.app: WSGIApplication | None = None

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Any:
        """Answer one request."""
        if self.app is None:
            start_response("503 Service Unavailable", [("Retry-After", "1"), ("Content-Length", "0")])
            return []
        return self.app(environ, start_response)


def _sessions(site: Site) -> Callable[[str, str | None], str]:
    """Opens a session at the booking server for somebody."""
    long = timedelta(seconds=LONG)
    sessions = Sessions(site.booking_server.opened_store, site.clock, idle=long, longest=long)

    def opened(person: str, before: str | None) -> str:
        login = Login(user=person, source="kubernetes", raw=person, subject=subject_of(person))
        return sessions.open(login, before)

    return opened


def _doorway(site: Site, pace: Pace, visitors: Visitors, web: WebServer) -> Doorway:
    actions = Actions(site, lambda: site.server.bookings, site.feed)

    def moment(instant: datetime) -> str:
        return f"{instant.astimezone(zone_of(site.booking_server.rules.zone)):%a %H:%M:%S}"

    def now() -> str:
        clock = SiteClock(zone_of(site.booking_server.rules.zone), site.clock.now().replace(microsecond=0))
        return f"{clock.day(clock.now)} {clock.now.astimezone(clock.zone):%H:%M:%S}"

    def shown(person: str) -> str:
        state = bar.BarState(
            person=person,
            token=visitors.secret,
            now=now(),
            speed=pace.speed,
            is_leaping=pace.is_leaping,
            broken=actions.broken,
            drained=actions.drained,
            gives_claims=site.gives_claims,
            entries=site.feed.newest(),
        )
        return bar.bar(state, moment)

    def state(person: str) -> Mapping[str, Any]:
        number, entries = site.feed.number, site.feed.newest()
        return {
            "now": now(),
            "leaping": pace.is_leaping,
            "number": number,
            "newest": bar.lines(entries[: bar.SHOWN], person, moment),
            "all": bar.lines(entries, person, moment),
        }

    return Doorway(
        application(_backends(site)),
        visitors,
        hosts=frozenset(f"{host}:{web.port}" for host in (LOOPBACK, "localhost")),
        act=_Buttons(site, pace, actions).press,
        shown=shown,
        state=state,
        person=ALICE,
    )


class _Buttons:
    """What each button does."""

    def __init__(self, site: Site, pace: Pace, actions: Actions) -> None:
        self._site, self._pace, self._actions = site, pace, actions

    def press(self, _visitor: str, person: str, value: str) -> None:
        """Do it, and say so."""
        actions = self._actions
        known: Mapping[str, Callable[[], str]] = {
            "start 1": lambda: actions.start(person, 1),
            "start 8": lambda: actions.start(person, 8),
            "start share": lambda: actions.share(person),
            "start claim": lambda: actions.claim(person),
            "start notebook": lambda: actions.notebook(person),
            "gpu": actions.turn_gpu,
            "node": actions.turn_node,
        }
        if value == "leap":
            self._pace.leap(DAY)
        elif value in ("speed 1", "speed 60"):
            self._pace.speed = float(value.removeprefix("speed "))
        elif value in known:
            try:
                self._site.feed.note(self._pace.call(known[value]))
            except (ApiError, TimeoutError) as error:
                self._site.feed.note(f"That could not be done: {error or 'it takes too long'}.", mood="bad")


def _backends(site: Site) -> Backends:
    """The booking server's dependencies: its own, on the API server in memory."""
    server = site.booking_server
    return Backends(
        settings=ServerSettings(
            database=f"sqlite:///{server.database}",
            session_idle_seconds=LONG,
            session_longest_seconds=LONG,
            requests_per_second=OFTEN,
            request_burst=OFTEN,
        ),
        clock=site.clock,
        process=Process(names.BOOKING_SERVER, site.clock),
        registry=server.registry,
        metrics=server.metrics,
        policy=PolicyFile(None, site.clock, default=server.rules),
        store=server.opened_store,
        asking=site.kube.as_user(server.user),
        cache=server.cache,
        following=server.following,
        nodes=server.nodes,
        mirror=server.mirror,
        plan_controller=server.plan_controller,
        terms=EvictionSettings(notice_seconds=NOTICE_SECONDS),
        wrong_clock=server.wrong_clock,
        shares=server.shares,
    )
