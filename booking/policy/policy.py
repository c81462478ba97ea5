"""The policy as a whole: what an administrator has written, and what holds for a user. Pure."""

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from booking.policy import resolution
from booking.policy.limits import Limits
from booking.policy.resolution import Group, Scope
from booking.policy.values import Value, ValueMistakeError, Values, read_value, written_value
from booking.policy.visibility import Visibility

FILE_VERSION: Final = 1
"""Of the form in which policies are written: ``version`` in the file. Not a policy's own version, which says
what it means."""


class Exempting(Protocol):
    """An exemption, as the store keeps it."""

    @property
    def model(self) -> str | None:
        """The only model that it is about, in label form; None: all."""
        ...

    @property
    def limits(self) -> Mapping[str, Any]:
        """What differs, as the policy file would say it."""
        ...

    @property
    def start(self) -> datetime:
        """The first instant at which it holds."""
        ...

    @property
    def end(self) -> datetime:
        """The first instant at which it does not hold any more."""
        ...


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Limits by scope: the narrowest scope that sets a limit wins. An empty policy is the manual."""

    zone: str = "UTC"
    """The site's zone: in it days are counted."""
    visibility: Visibility = "load"
    defaults: Values = {}
    pools: Mapping[str, Values] = {}
    """Model in label form -> what differs for it."""
    groups: tuple[Group, ...] = ()
    """Of several groups of a user the one that is written first wins."""
    users: Mapping[str, Scope] = {}

    @property
    def version(self) -> str:
        """A short name of what the policy means: another one where anything that counts is different."""
        meant = msgspec.json.encode(meaning(self), order="deterministic")
        return hashlib.sha256(meant).hexdigest()[:12]

    def limits_for(
        self,
        *,
        user: str,
        groups: Iterable[str] = (),
        model: str,
        now: datetime,
        exemptions: Iterable[Exempting] = (),
    ) -> Limits:
        """What holds for a user who books GPUs of a model now.

        Args:
            user: user id.
            groups: names of groups that the user is in besides those that the policy lists.
            model: in label form.
            now: aware UTC.
            exemptions: the user's; those that do not hold now, or not for this model, are left out.
        """
        layers = [self.defaults, self.pools.get(model, {})]
        layers += resolution.of_groups(self.groups, user=user, names=frozenset(groups), model=model)
        layers += self.users[user].layers(model) if user in self.users else []
        layers += [
            _readable(each.limits)
            for each in sorted(exemptions, key=lambda each: (each.model is not None, each.start))
            if each.start <= now < each.end and each.model in {None, model}
        ]
        return resolution.resolved(layers, zone=self.zone)


def read_exemption(written: Mapping[str, Any]) -> dict[str, Value]:
    """The limits that an exemption sets: what the policy file could say for a user.

    Raises:
        ValueMistakeError: with a message for everything that is wrong.
    """
    wrong: list[str] = []
    found: dict[str, Any] = {}
    for knob, value in written.items():
        try:
            found[knob] = read_value(knob, value)
        except ValueMistakeError as error:
            wrong.append(str(error))
    if not written:
        wrong.append("An exemption sets at least one limit.")
    try:
        if {"shortest", "longest"} <= found.keys():
            # One of them alone moves the other, which a wider scope says: these two must agree.
            Limits(**found)
        resolution.resolved([found])
    except ValueError as error:
        wrong.append(str(error))
    if wrong:
        raise ValueMistakeError(" ".join(wrong))
    return found


def _readable(written: Mapping[str, Any]) -> dict[str, Value]:
    """What can still be understood, and kept, of an exemption that another version of ours has accepted."""
    found: dict[str, Value] = {}
    for knob, value in written.items():
        with suppress(ValueError):
            read = read_value(knob, value)
            resolution.resolved([{knob: read}])
            found[knob] = read
    return found


def meaning(policy: Policy) -> dict[str, Any]:
    """All that a policy says, for programs."""
    return {
        "zone": policy.zone,
        "visibility": policy.visibility,
        "defaults": _written(policy.defaults),
        "pools": {model: _written(values) for model, values in policy.pools.items()},
        "groups": [
            {"name": group.name, "members": sorted(group.members), **_of_scope(group.scope)}
            for group in policy.groups
        ],
        "users": {user: _of_scope(scope) for user, scope in policy.users.items()},
    }


def _of_scope(scope: Scope) -> dict[str, Any]:
    return {
        "limits": _written(scope.values),
        "pools": {model: _written(values) for model, values in scope.pools.items()},
    }


def _written(values: Values) -> dict[str, Any]:
    return {knob: written_value(value) for knob, value in sorted(values.items())}
