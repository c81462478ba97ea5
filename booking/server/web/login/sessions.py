"""Keeps people signed in: sessions in the database, by the digest of the cookie's value."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec

from booking.server.store import Store, Writing
from booking.server.store_records import Session
from cluster.decide.identity import Source
from cluster.kube.token_review import Subject
from cluster.process.clock import Clock

_LETTERS: Final = 43
"""Letters of a cookie: 32 bytes in base64."""
_TOUCHES: Final = 10
"""How often the end of a session is extended within the time after which an idle one ends."""
_REMEMBERED: Final = timedelta(days=1)
"""After its end a session signs nobody in; so long it still tells whose a form is that was sent too late."""


@dataclass(frozen=True)
class Login:
    """A user who has just signed in, and how they were identified."""

    user: str
    """User id."""
    source: Source
    raw: str
    subject: Subject
    email: str | None = None
    until: datetime | None = None
    """When the session ends at the latest; None: as sessions do by default."""


class Sessions:
    """Opens, finds and closes sessions. Thread-safe."""

    def __init__(self, store: Store, clock: Clock, *, idle: timedelta, longest: timedelta) -> None:
        """Args: idle: after this without a request a session ends; longest: after this in any case."""
        self._store = store
        self._clock = clock
        self._idle = idle
        self._longest = longest

    def open(self, login: Login, old: str | None = None) -> str:
        """Open a new session, never an existing one; returns the value of its cookie.

        Args:
            login: the user.
            old: the cookie that the browser had; that session ends.
        """
        cookie = secrets.token_urlsafe(32)
        now = self._clock.now().replace(microsecond=0)
        last = min(now + self._longest, login.until or now + self._longest)
        session = Session(
            id=_digest(cookie),
            user=login.user,
            name=login.raw,
            groups=tuple(sorted(login.subject.groups)),
            csrf=secrets.token_urlsafe(32),
            created=now,
            expires=min(now + self._idle, last),
            data={"source": login.source, "subject": login.subject.name, "last": last.timestamp()},
        )

        def decide(writing: Writing) -> None:
            if old is not None:
                writing.session_remove(_digest(old))
            writing.session_add(session, ended_before=now - _REMEMBERED)
            if login.email is not None:
                writing.email_set(login.user, login.email, now)

        self._store.write(decide)
        return cookie

    def find(self, cookie: str | None) -> Session | None:
        """The session of a cookie, if it has not ended; its use extends it."""
        if cookie is None or len(cookie) != _LETTERS:
            return None
        now = self._clock.now().replace(microsecond=0)
        found = self._store.read(lambda reading: reading.session(_digest(cookie), now))
        if found is None:
            return None
        expires = min(now + self._idle, datetime.fromtimestamp(found.data["last"], now.tzinfo))
        if expires - found.expires >= self._idle / _TOUCHES:
            self._move_on(found, now, expires)
        return found

    def ended(self, cookie: str | None) -> Session | None:
        """The session of a cookie that has ended by itself within the last day."""
        if cookie is None or len(cookie) != _LETTERS:
            return None
        now = self._clock.now().replace(microsecond=0)
        found = self._store.read(lambda reading: reading.session(_digest(cookie), now - _REMEMBERED))
        return found if found is not None and found.expires <= now else None

    def close(self, cookie: str) -> None:
        """End the session of a cookie."""
        self._store.write(lambda writing: writing.session_remove(_digest(cookie)))

    def _move_on(self, session: Session, now: datetime, expires: datetime) -> None:
        def decide(writing: Writing) -> None:
            # The user may have signed out meanwhile.
            if writing.session(session.id, now) is not None:
                writing.session_remove(session.id)
                moved_on = msgspec.structs.replace(session, expires=expires)
                writing.session_add(moved_on, ended_before=now - _REMEMBERED)

        self._store.write(decide)


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode()).hexdigest()
