"""The configuration of the OIDC provider, and the mapping of its claims to a user. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cluster.kube.token_review import Subject

AUTHENTICATED: Final = "system:authenticated"
"""The group that the API server gives to every authenticated user."""
_RESERVED: Final = "system:"
"""Names with this prefix are Kubernetes' own: a provider may not assign them."""


class BadTokenError(Exception):
    """An ID token that is not valid here; the text is a message."""


@dataclass(frozen=True, kw_only=True)
class Oidc:
    """A provider, and how its claims are interpreted."""

    issuer: str
    client_id: str
    secret_file: Path | None = None
    """None: we are a public client."""
    scopes: Sequence[str] = ("openid", "profile", "email")
    audiences: Sequence[str] = ()
    """Other clients whose ID tokens are accepted in the header ``Authorization``."""
    username_claim: str = "sub"
    groups_claim: str = "groups"
    username_prefix: str = ""
    """Prefix that the API server puts before names: roles are requested under the prefixed name."""
    groups_prefix: str = ""
    ca_file: Path | None = None


@dataclass(frozen=True)
class Person:
    """The person whom an ID token names."""

    raw: str
    """The raw name from the provider."""
    subject: Subject
    """The user and groups, as the API server would name them."""
    email: str | None


def person_of(claims: Mapping[str, Any], oidc: Oidc) -> Person:
    """The person whom the claims of an ID token name.

    Raises:
        BadTokenError: they give no valid name.
    """
    raw = claims.get(oidc.username_claim)
    if not isinstance(raw, str) or not raw:
        raise BadTokenError(
            f"The ID token does not say who you are: it has no claim {oidc.username_claim!r}."
        )
    is_unverified = claims.get("email_verified") is False
    if oidc.username_claim == "email" and is_unverified:
        raise BadTokenError("The identity provider has not verified your e-mail address.")
    name = oidc.username_prefix + raw
    if name.startswith(_RESERVED):
        raise BadTokenError(f"Names that begin with {_RESERVED!r} are Kubernetes' own.")
    email = claims.get("email")
    return Person(
        raw,
        Subject(name, _groups(claims.get(oidc.groups_claim), oidc.groups_prefix)),
        email if isinstance(email, str) and "@" in email and not is_unverified else None,
    )


def _groups(claim: object, prefix: str) -> frozenset[str]:
    listed = [claim] if isinstance(claim, str) else claim if isinstance(claim, list) else []
    named = {prefix + group for group in listed if isinstance(group, str) and group}
    return frozenset(name for name in named if not name.startswith(_RESERVED)) | {AUTHENTICATED}
