"""Maps raw names of different sources to one user id, by configured rules.

The booking server (REST) and admission (pods) use the same rules, so a booking and a pod of one person have
the same user. A name that no rule maps has no user. The caller decides which sources are trusted.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from cluster.decide.jupyterhub_labels import labels_of

Source = Literal["kubernetes", "jupyterhub", "oidc", "maia"]
"""Where a raw name comes from: the API server's authentication, a JupyterHub, a claim of the OIDC provider by
which people sign in, an e-mail address in MAIA's requests."""

ACCOUNTS: Final = "system:serviceaccount:"
"""Prefix of the names that the API server gives ServiceAccounts."""
CONTROLLER_MANAGER: Final = "system:kube-controller-manager"
"""The creator of pods of Deployments and Jobs, if the controllers have no ServiceAccounts of their own."""

_FOLDED: Final = frozenset({"jupyterhub", "maia"})
"""Sources whose names are lower-cased unless a rule says otherwise."""

UsersOf = Mapping[str, frozenset[str]]
"""Label of JupyterHub -> user ids of all known people who may have it."""


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    r"""``match``: a regular expression for the whole raw name; ``user``: a template (``\1``)."""

    source: Source
    match: str
    user: str = r"\g<0>"
    fold: bool | None = None
    """Whether capital letters of the raw name count as small ones, and the user id gets small ones. None: for
    names from a JupyterHub, which lower-cases names itself, and for e-mail addresses (ADR 67)."""

    def __post_init__(self) -> None:
        """Refuse a rule that cannot be used.

        Raises:
            ValueError: not a regular expression, or a template with a group that it does not have.
        """
        try:
            re.compile(self.match)
        except re.error as error:
            raise ValueError(
                f"The identity rule {self.match!r} is not a regular expression: {error}."
            ) from error
        try:
            # The empty alternative makes the pattern match here, so that the template is expanded.
            re.sub(f"(?:{self.match})|", self.user, "")
        except (re.error, IndexError) as error:
            raise ValueError(
                f"The user {self.user!r} of the identity rule {self.match!r} cannot be filled in: {error}."
            ) from error

    def folds(self, raw: str) -> bool:
        """Whether this raw name is lower-cased before it is matched."""
        return self.fold if self.fold is not None else self.source in _FOLDED or is_address(raw)

    def match_of(self, raw: str) -> re.Match[str] | None:
        """The match of a raw name of the rule's source, lower-cased where it is folded."""
        if self.folds(raw):
            # Not beyond ASCII, where a pattern's "s" would also match another letter than "s" and "S".
            return re.fullmatch(self.match, raw.lower(), re.IGNORECASE if raw.isascii() else re.NOFLAG)
        return re.fullmatch(self.match, raw)


DEFAULT_RULES: Final = (
    Rule(source="kubernetes", match=r"(?!system:)[^@\n]+"),
    Rule(source="jupyterhub", match=r"[^@\n]+"),
    Rule(source="oidc", match=r"(?!system:)[^@\n]+"),
)
"""Names from the API server, the hub or the provider are users as they are; ServiceAccounts and other
``system:`` names are not. Nor are e-mail addresses: everyone who may see pods sees user ids (ADR 61)."""


def is_address(raw: str) -> bool:
    """Whether a name is an e-mail address, or has the form of one."""
    return "@" in raw


def user_of(source: Source, raw: str, rules: Iterable[Rule] = DEFAULT_RULES) -> str | None:
    """The user id of a raw name by the first rule that matches; None if it has no user."""
    for rule in rules:
        found = rule.match_of(raw) if rule.source == source else None
        if found:
            return found.expand(rule.user) or None
    return None


def is_account(raw: str) -> bool:
    """Whether a name from the API server is a program's: Kubernetes' controllers and other ServiceAccounts.

    Kubernetes does not record for whom programs create objects.
    """
    return raw.startswith(ACCOUNTS) or raw == CONTROLLER_MANAGER


def users_by_label(known: Iterable[str], rules: Iterable[Rule] = DEFAULT_RULES) -> UsersOf:
    """Every label that a JupyterHub may give to the pods of known people -> the users whom it may mean.

    Two people with the same label cannot be distinguished: the label has both, and the caller takes neither.

    Args:
        known: raw names, including user ids of bookings.
        rules: map raw names to user ids; a name that they do not map has no user.
    """
    table: dict[str, frozenset[str]] = {}
    rules = tuple(rules)
    for raw in known:
        user = user_of("jupyterhub", raw, rules)
        # A hub may have lower-cased the name that its user signed in with.
        spelled = {raw, raw.lower()} if user_of("jupyterhub", raw.lower(), rules) == user else {raw}
        for label in frozenset().union(*map(labels_of, spelled)) if user else ():
            table[label] = table.get(label, frozenset()) | {user or ""}
    return table
