"""Reads the part ``fair_shares`` of a policy file strictly. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, get_args

from booking import durations
from booking.durations import Duration, DurationError
from booking.policy.fair_shares import ANY_MODEL, FairShares, Mode, ShareGroup, Standing
from booking.policy.values import ValueMistakeError
from booking.policy.yaml_nodes import Entry, Nodes
from cluster import names

_HOUR: Final = 3600
_DAY: Final = 24 * _HOUR
_WEEK: Final = 7 * _DAY
_MOST_GPUS: Final = 1_000_000
_MOST_WEIGHT: Final = 1000
_LONGEST_NUMBER: Final = 12
"""Characters of a number with decimals."""
_STANDING: Final = ("weight", "quota", "limit")
_MEMBERS: Final[Mapping[str, Callable[[ShareGroup], frozenset[str]]]] = {
    "user": lambda group: group.members,
    "Kubernetes group": lambda group: group.kubernetes_groups,
    "namespace": lambda group: group.namespaces,
}
_OF_GROUP: Final = (*_STANDING, "members", "kubernetes_groups", "namespaces")


def read_fair_shares(nodes: Nodes, entry: Entry) -> FairShares:
    """The settings under a key; what is wrong is added to the mistakes of ``nodes``."""
    return _Reader(nodes).read(entry)


@dataclass(frozen=True, slots=True)
class _Reader:
    nodes: Nodes

    def read(self, entry: Entry) -> FairShares:
        """All keys."""
        found = self._keys(entry, self._readers())
        shares = FairShares(**found)
        if shares.turn is not None and shares.turn.nominal < shares.min_runtime.nominal:
            self.nodes.wrong(
                entry,
                f"A turn ({shares.turn}) may not be shorter than min_runtime ({shares.min_runtime}).",
            )
        return shares

    def _readers(self) -> Mapping[str, Callable[[Entry], Any]]:
        return {
            "mode": self._mode,
            "reclaim_after": lambda entry: self._span(entry, 0, _HOUR),
            "min_runtime": lambda entry: self._span(entry, 0, _DAY),
            "turn": lambda entry: self._or_none(entry, lambda: self._span(entry, _HOUR, _WEEK)),
            "evictions_per_day": lambda entry: self._whole(entry, 1, 24),
            "worth": lambda entry: self._number(entry, 0, 10),
            "turn_loss": lambda entry: self._or_none(entry, lambda: self._number(entry, 0, 1)),
            "groups": self._groups,
            "users": lambda entry: {each.key: self._user(each) for each in self._entries(entry)},
            "values": lambda entry: self._amounts(entry, least=1),
        }

    def _keys(self, entry: Entry, readers: Mapping[str, Callable[[Entry], Any]]) -> dict[str, Any]:
        """Key -> what was read, of those that are known and right."""
        found: dict[str, Any] = {}
        for each in self._entries(entry):
            if each.key not in readers:
                self.nodes.wrong(each, f"Here are {', '.join(readers)}, and nothing of this name.")
                continue
            try:
                found[each.key] = readers[each.key](each)
            except ValueMistakeError as error:
                self.nodes.wrong(each, str(error))
        return found

    def _entries(self, entry: Entry) -> list[Entry]:
        return list(self.nodes.entries(entry.node, entry.path))

    # --- groups and users ------------------------------------------------------------------------------
    def _groups(self, entry: Entry) -> tuple[ShareGroup, ...]:
        groups = tuple(self._group(each) for each in self._entries(entry))
        for kind, of in _MEMBERS.items():
            seen: dict[str, str] = {}
            for group in groups:
                for one in sorted(of(group)):
                    if one in seen:
                        self.nodes.wrong(
                            entry,
                            f"The {kind} {one[:80]!r} is in the groups {seen[one][:80]!r} and"
                            f" {group.name[:80]!r}: shares are divided once, so a {kind} is in one group.",
                        )
                    seen[one] = group.name
        return groups

    def _group(self, entry: Entry) -> ShareGroup:
        found = self._keys(entry, {key: self._of_group()[key] for key in _OF_GROUP})
        standing = self._standing(entry, {key: found.pop(key) for key in _STANDING if key in found})
        return ShareGroup(name=entry.key, standing=standing, **found)

    def _of_group(self) -> dict[str, Callable[[Entry], Any]]:
        return {
            **self._of_standing(),
            "members": self.nodes.listed,
            "kubernetes_groups": lambda entry: self.nodes.listed(entry, what="group", like="[vision]"),
            "namespaces": lambda entry: self.nodes.listed(entry, what="namespace", like="[vision]"),
        }

    def _user(self, entry: Entry) -> Standing:
        return self._standing(entry, self._keys(entry, self._of_standing()))

    def _of_standing(self) -> dict[str, Callable[[Entry], Any]]:
        return {"weight": self._weight, "quota": self._amounts, "limit": self._amounts}

    def _standing(self, entry: Entry, found: dict[str, Any]) -> Standing:
        standing = Standing(**found)
        for model, quota in standing.quota.items():
            limit = standing.limit.get(model, standing.limit.get(ANY_MODEL, quota))
            if limit < quota:
                self.nodes.wrong(
                    entry, f"The limit of {model} is {limit}, which is less than the quota, {quota}."
                )
        return standing

    # --- values ----------------------------------------------------------------------------------------
    def _mode(self, entry: Entry) -> str:
        mode = self.nodes.scalar(entry)
        if mode is False:
            return "off"  # what Helm and other readers of YAML make of a bare `off`; ours does not
        if mode not in get_args(Mode):
            raise ValueMistakeError(f"The mode is one of {', '.join(get_args(Mode))}, not {_shown(mode)}.")
        return str(mode)

    def _span(self, entry: Entry, least: int, most: int) -> Duration:
        written = self.nodes.scalar(entry)
        if not isinstance(written, str):
            raise ValueMistakeError(
                f"{entry.key} is a length of time, such as PT10M, 10m or 4h, not {_shown(written)}."
            )
        try:
            span = durations.read(written)
        except DurationError as error:
            raise ValueMistakeError(f"{entry.key}: {error}") from error
        if not least <= span.nominal.total_seconds() <= most:
            shortest, longest = Duration(seconds=least), Duration(seconds=most)
            raise ValueMistakeError(f"{entry.key} is between {shortest} and {longest}, not {span}.")
        return span

    def _whole(self, entry: Entry, least: int, most: int) -> int:
        written = self.nodes.scalar(entry)
        if isinstance(written, bool) or not isinstance(written, int) or not least <= written <= most:
            raise ValueMistakeError(
                f"{entry.key} is a whole number between {least} and {most}, not {_shown(written)}."
            )
        return written

    def _number(self, entry: Entry, least: int, most: int) -> Fraction:
        number = _fraction(self.nodes.scalar(entry))
        if number is None or not least <= number <= most:
            written = self.nodes.scalar(entry)
            raise ValueMistakeError(
                f"{entry.key} is a number between {least} and {most}, such as 0.5, not {_shown(written)}."
            )
        return number

    def _weight(self, entry: Entry) -> Fraction:
        weight = _fraction(self.nodes.scalar(entry))
        if weight is None or not 0 < weight <= _MOST_WEIGHT:
            written = self.nodes.scalar(entry)
            raise ValueMistakeError(
                f"A weight is a number above 0 and at most {_MOST_WEIGHT}, such as 2 or 0.5,"
                f" not {_shown(written)}."
            )
        return weight

    def _amounts(self, entry: Entry, *, least: int = 0) -> dict[str, int]:
        found: dict[str, int] = {}
        for each in self._entries(entry):
            model = ANY_MODEL if each.key == ANY_MODEL else names.model_label(each.key)
            if model in found:
                self.nodes.wrong(each, f"The model {model} is here twice, in two spellings.")
            try:
                found[model] = self._whole(each, least, _MOST_GPUS)
            except ValueMistakeError as error:
                self.nodes.wrong(each, str(error))
        return found

    def _or_none(self, entry: Entry, read: Callable[[], Any]) -> Any:
        return None if self.nodes.scalar(entry) in {None, "none"} else read()


def _fraction(written: Any) -> Fraction | None:
    """A decimal number as it is written; None for anything else."""
    if isinstance(written, int) and not isinstance(written, bool):
        return Fraction(written)
    if not isinstance(written, str) or len(written) > _LONGEST_NUMBER:
        return None
    whole, _, decimals = written.partition(".")
    if not (whole + decimals).isdecimal() or not (whole + decimals).isascii() or not whole:
        return None
    return Fraction(written)


def _shown(written: Any) -> str:
    text = "nothing" if written is None else repr(written)
    return text if len(text) <= durations.LONGEST_TEXT else f"{text[: durations.LONGEST_TEXT]}…"
