"""The policy as a whole: what an administrator has written, and what holds for a user. Pure."""

import hashlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from booking.policy import resolution
from booking.policy.fair_shares import FairShares, written_fair_shares
from booking.policy.limits import Limits
from booking.policy.node_profiles import NodeProfile
from booking.policy.resolution import Group, Scope
from booking.policy.values import Value, ValueMistakeError, Values, read_value, written_value
from booking.policy.visibility import Visibility

FILE_VERSION: Final = 1
"""Version of the policy file's format: ``version`` in the file. A policy's own version is derived from its
meaning."""


class Exempting(Protocol):
    """An exemption, as the store keeps it."""

    @property
    def model(self) -> str | None:
        """The only model that it applies to, in label form; None: all."""
        ...

    @property
    def limits(self) -> Mapping[str, Any]:
        """The limits that it sets, as the policy file would write them."""
        ...

    @property
    def start(self) -> datetime:
        """The first instant at which it is in force."""
        ...

    @property
    def end(self) -> datetime:
        """The first instant at which it is no longer in force."""
        ...


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """Limits by scope: the narrowest scope that sets a limit wins. An empty policy is the manual."""

    zone: str = "UTC"
    """The site's zone, in which days are counted."""
    visibility: Visibility = "load"
    defaults: Values = {}
    pools: Mapping[str, Values] = {}
    """Model in label form -> the limits that differ for it."""
    groups: tuple[Group, ...] = ()
    """If a user is in several groups, the first of them wins."""
    users: Mapping[str, Scope] = {}
    nodes: tuple[NodeProfile, ...] = ()
    """Nodes that can be booked before an autoscaler has added them."""
    fair_shares: FairShares = FairShares()
    """How GPUs without a booking are divided; nothing of it concerns bookings."""

    @property
    def version(self) -> str:
        """A short digest of the policy's meaning: it differs if anything relevant does."""
        content = msgspec.json.encode(meaning(self), order="deterministic")
        return hashlib.sha256(content).hexdigest()[:12]

    def limits_for(
        self,
        *,
        user: str,
        groups: Iterable[str] = (),
        model: str,
        now: datetime,
        exemptions: Iterable[Exempting] = (),
    ) -> Limits:
        """The limits on a user who books GPUs of a model now.

        Args:
            user: user id.
            groups: names of groups that the user is in besides those that the policy lists.
            model: in label form.
            now: aware UTC.
            exemptions: the user's; those not in force now, or for another model, are ignored.
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
    """The limits that an exemption sets: those that the policy file could set for a user.

    Raises:
        ValueMistakeError: with a message for everything that is wrong.
    """
    wrong: list[str] = []
    found: dict[str, Any] = {}
    for limit, value in written.items():
        try:
            found[limit] = read_value(limit, value)
        except ValueMistakeError as error:
            wrong.append(str(error))
    if not written:
        wrong.append("An exemption sets at least one limit.")
    try:
        if {"shortest", "longest"} <= found.keys():
            # If only one were set, it would move the other, which comes from a wider scope: these two must
            # agree.
            Limits(**found)
        resolution.resolved([found])
    except ValueError as error:
        wrong.append(str(error))
    if wrong:
        raise ValueMistakeError(" ".join(wrong))
    return found


def _readable(written: Mapping[str, Any]) -> dict[str, Value]:
    """The limits of an exemption, accepted by another version of ours, that are still valid."""
    found: dict[str, Value] = {}
    for limit, value in written.items():
        with suppress(ValueError):
            read = read_value(limit, value)
            resolution.resolved([{limit: read}])
            found[limit] = read
    return found


def meaning(policy: Policy) -> dict[str, Any]:
    """The complete contents of a policy, for programs."""
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
        "nodes": {profile.name: profile.written() for profile in policy.nodes},
        "fair_shares": written_fair_shares(policy.fair_shares),
    }


def _of_scope(scope: Scope) -> dict[str, Any]:
    return {
        "limits": _written(scope.values),
        "pools": {model: _written(values) for model, values in scope.pools.items()},
    }


def _written(values: Values) -> dict[str, Any]:
    return {limit: written_value(value) for limit, value in sorted(values.items())}
