"""People who sign in: their sessions, and their e-mail addresses, which are stored only here."""

from datetime import datetime
from typing import Final

import msgspec
import peewee

from booking.server.store.models import PersonRow, SessionRow
from booking.server.store.transaction import Transaction, WritingTransaction
from booking.server.store_records import Session

_SET_EMAIL: Final = """
    INSERT INTO people ("user", email, at) VALUES (?, ?, ?)
    ON CONFLICT ("user") DO UPDATE SET email = excluded.email, at = excluded.at
"""


class PeopleRead(Transaction):
    """Reads sessions and e-mail addresses."""

    def session(self, session_id: str, now: datetime) -> Session | None:
        """A session that has not expired."""
        query = SessionRow.select().where((SessionRow.id == session_id) & (SessionRow.expires > now))
        for row in self._all(query):
            return Session(**{**row, "groups": tuple(row["groups"])})
        return None

    def users_with_email(self, email: str) -> list[str]:
        """The user ids with this address, however it is capitalised."""
        lowered = peewee.fn.lower(PersonRow.email) == peewee.fn.lower(email)
        rows = self._all(PersonRow.select(PersonRow.user).where(lowered).order_by(PersonRow.user))
        return [str(row["user"]) for row in rows]

    def email_of(self, user: str) -> str | None:
        """The user's own address, as their identity provider gave it; None if it gave none."""
        rows = self._all(PersonRow.select(PersonRow.email).where(PersonRow.user == user))
        return next((str(row["email"]) for row in rows), None)


class PeopleWrite(WritingTransaction):
    """Writes sessions and e-mail addresses."""

    def session_add(self, session: Session, *, ended_before: datetime | None = None) -> None:
        """Store a new session, and delete those that ended before then; None: before it was created."""
        self._do(SessionRow.delete().where(SessionRow.expires <= (ended_before or session.created)))
        self._do(SessionRow.insert(**msgspec.structs.asdict(session)))

    def session_remove(self, session_id: str) -> None:
        """Delete a session: the browser that has its cookie is signed out."""
        self._do(SessionRow.delete().where(SessionRow.id == session_id))

    def email_set(self, user: str, email: str | None, at: datetime) -> None:
        """A user's address as their identity provider gives it; None forgets it."""
        if email is None:
            self._do(PersonRow.delete().where(PersonRow.user == user))
        else:
            self._run(_SET_EMAIL, user, email, int(at.timestamp()))
