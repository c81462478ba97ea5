"""Who sits before the browser: visitors who have come by the printed address, and as whom they act.

The printed address has a secret: other users of the machine do not know it, nor does a page of another site.
A visitor's cookie has the port in its name, because browsers send cookies to every port of a host.
"""

import secrets
import threading
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from typing import Final

from cluster import names


class Visitors:
    """Visitors, as whom they act, and the session that they have at the booking server. Thread-safe."""

    def __init__(self, port: int, opened: Callable[[str, str | None], str]) -> None:
        """Args: opened: opens a session for a person, and ends the one before; returns its cookie."""
        self.secret: Final = secrets.token_urlsafe(24)
        """Whoever shows it is let in."""
        self._cookie: Final = names.demo_cookie(port)
        self._opened = opened
        self._lock = threading.Lock()
        self._sessions: dict[str, tuple[str, str]] = {}
        """Visitor -> person, and the session's cookie."""

    def enter(self, secret: str, person: str) -> str | None:
        """Let a visitor in; returns the header ``Set-Cookie``, or None for a wrong secret."""
        if not secrets.compare_digest(secret.encode(), self.secret.encode()):
            return None
        visitor = secrets.token_urlsafe(24)
        self.become(visitor, person)
        return f"{self._cookie}={visitor}; Path=/; HttpOnly; SameSite=Lax"

    def become(self, visitor: str, person: str) -> None:
        """From now on the visitor is this person."""
        before = self._sessions.get(visitor)
        session = self._opened(person, before[1] if before else None)
        with self._lock:
            self._sessions[visitor] = (person, session)

    def of(self, cookies: str) -> str | None:
        """The visitor whom a header ``Cookie`` names; None for nobody whom we have let in."""
        try:
            found = SimpleCookie(cookies).get(self._cookie)
        except CookieError:
            return None
        return found.value if found and found.value in self._sessions else None

    def person(self, visitor: str) -> str:
        """As whom a visitor acts."""
        return self._sessions[visitor][0]

    def signed_in(self, visitor: str) -> str:
        """The header ``Cookie`` by which the booking server knows the person."""
        return f"{names.SESSION_COOKIE}={self._sessions[visitor][1]}"
