"""A form that was sent after its session had ended: the browser keeps it until its user is back. Pure."""

import base64
import binascii
from typing import Final, Protocol

import msgspec
from flask import Request, Response

from booking.principals import Principal
from booking.server.web.signing_in import own

_LONGEST: Final = 3000
"""Characters of its cookie; browsers take 4096."""


class KeptForm(msgspec.Struct, frozen=True):
    """What was filled in, where it was sent to, and by whom."""

    address: str
    """A path of ours."""
    fields: tuple[tuple[str, str], ...]
    user: str
    """User id of the ended session: nobody else sees or sends the form."""


class KeptForms(Protocol):
    """Keeps forms across signing in."""

    def keep(self, answer: Response, request: Request) -> bool:
        """Let the browser keep the form in this request; False where it is not known to be a user's own."""
        ...

    def waiting(self, who: Principal, request: Request) -> KeptForm | None:
        """The form that this user has still to send."""
        ...

    def drop(self, answer: Response, request: Request) -> None:
        """Let the browser forget the form."""
        ...


def encoded(form: KeptForm) -> str | None:
    """The form as a cookie's value; None if it is too long for one."""
    text = base64.urlsafe_b64encode(msgspec.json.encode(form)).decode()
    return text if len(text) <= _LONGEST and own(form.address) == form.address else None


def decoded(cookie: str | None) -> KeptForm | None:
    """The form in a cookie; None if there is none, or it was not written by us."""
    try:
        form = msgspec.json.decode(base64.urlsafe_b64decode((cookie or "").encode()), type=KeptForm)
    except (binascii.Error, ValueError):
        return None
    return form if own(form.address) == form.address else None
