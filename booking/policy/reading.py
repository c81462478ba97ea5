"""Reads a policy file strictly: all mistakes are reported together, with line and key. Pure.

YAML, but only what a policy needs: no tags, no aliases, no duplicate keys.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args

import yaml

from booking.policy.fair_shares_reading import read_fair_shares
from booking.policy.limits import Limits, zone_of
from booking.policy.node_profiles import LONGEST_NAME, MOST_GPUS, MOST_NODES, NodeProfile
from booking.policy.policy import FILE_VERSION, Policy
from booking.policy.resolution import Group, Scope
from booking.policy.values import ValueMistakeError, Values, read_value, require_known_limit
from booking.policy.visibility import Visibility
from booking.policy.yaml_nodes import Entry, Mistake, Nodes, PolicyError, value_of
from cluster import names

LONGEST: Final = 2**20
"""Characters: as many as a ConfigMap can hold."""
_DEEPEST: Final = 10
_VERSION: Final = "version"
_PARTS: Final = ("zone", "visibility", "defaults", "pools", "groups", "users", "nodes", "fair_shares")


def read_policy(text: str) -> Policy:
    """The policy in the text of a file.

    Raises:
        PolicyError: with everything that is wrong.
    """
    reader = _Reader()
    policy = reader.policy(_parsed(text))
    if reader.mistakes:
        raise PolicyError(reader.mistakes)
    return policy


def _parsed(text: str) -> yaml.Node | None:
    if len(text) > LONGEST:
        raise PolicyError(
            [Mistake(1, "", f"A policy has at most {LONGEST} characters, this one {len(text)}.")]
        )
    try:
        _refuse_what_is_not_needed(text)
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(filter(None, (error.context, error.problem)))
        raise PolicyError(
            [Mistake(mark.line + 1 if mark else 1, "", f"This is not YAML: {problem}.")]
        ) from error
    except PolicyError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # PyYAML accepts any number as a character code: Python's error for that is not a YAMLError.
        raise PolicyError([Mistake(1, "", f"This is not YAML: {' '.join(str(error).split())}.")]) from error


def _refuse_what_is_not_needed(text: str) -> None:
    """Refuse, before anything is composed, tags, anchors, aliases, and nesting beyond the limit."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 1
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise PolicyError([Mistake(line, "", "This is nested too deeply for a policy.")])
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise PolicyError(
                [Mistake(line, "", "A policy has no anchors (&) and aliases (*): write it out.")]
            )
        if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None) not in {None, "!"}:
            raise PolicyError([Mistake(line, "", "A policy has no tags (!): write plain values.")])


@dataclass(slots=True)
class _Reader(Nodes):
    """Reads a tree of nodes, and collects the mistakes."""

    scopes: list[tuple[Entry, tuple[Values, ...]]] = field(default_factory=list)
    """Each scope's place in the file, and its layers over the defaults, wide to narrow."""

    def policy(self, root: yaml.Node | None) -> Policy:
        """The whole policy; mistakes are added to ``mistakes``."""
        found: dict[str, Entry] = {}
        entries = {entry.key: entry for entry in self.entries(root, "")}
        version = entries.pop(_VERSION, None)
        if version is not None and not self._is_read(version):
            # The rest may mean something else in another version.
            return Policy()
        for key, entry in entries.items():
            if key in _PARTS:
                found[key] = entry
            else:
                parts = ", ".join((_VERSION, *_PARTS))
                self.wrong(entry, f"A policy has {parts}, and nothing of this name.")
        given = {key: read(found[key]) for key, read in self._readers().items() if key in found}
        policy = Policy(**given)
        if not self.mistakes:
            self._try(policy.defaults)
        return policy

    def _readers(self) -> Mapping[str, Callable[[Entry], Any]]:
        return {
            "zone": self._zone,
            "visibility": self._visibility,
            "defaults": self._defaults,
            "pools": self._pools,
            "groups": self._groups,
            "users": self._users,
            "nodes": self._profiles,
            "fair_shares": lambda entry: read_fair_shares(self, entry),
        }

    def _is_read(self, version: Entry) -> bool:
        """Whether the file has the version that is supported here; a file without one has (ADR 41)."""
        node = version.node
        value = value_of(node) if isinstance(node, yaml.ScalarNode) else None
        if type(value) is int and value == FILE_VERSION:
            return True
        text = f"the text {value[:80]!r}" if isinstance(value, str) else str(node.value)[:80]
        but = "" if value is None else f", not {text}"
        self.wrong(
            version,
            f"Policies are read in version {FILE_VERSION}{but}: write version: {FILE_VERSION}, or leave it "
            "out; a file of a later version needs the release of GPU Booking that brought it.",
        )
        return False

    def _zone(self, entry: Entry) -> str:
        name = self.text(entry)
        try:
            zone_of(name)
        except ValueError as error:
            self.wrong(entry, str(error))
        return name

    def _visibility(self, entry: Entry) -> str:
        name = self.text(entry)
        if name not in get_args(Visibility):
            self.wrong(entry, f"It is one of {', '.join(get_args(Visibility))}, not {name[:80]!r}.")
        return name

    def _defaults(self, entry: Entry) -> Values:
        self.scopes.append((entry, ()))
        return self._values(entry)

    def _values(self, entry: Entry) -> Values:
        return self._limits(list(self.entries(entry.node, entry.path)))

    def _limits(self, entries: list[Entry]) -> Values:
        values = {}
        for each in entries:
            try:
                require_known_limit(each.key)
                values[each.key] = read_value(each.key, self.scalar(each))
            except ValueMistakeError as error:
                self.wrong(each, str(error))
        return values

    def _pools(self, entry: Entry, *, over: Values | None = None) -> dict[str, Values]:
        found: dict[str, Values] = {}
        for each in self.entries(entry.node, entry.path):
            model = names.model_label(each.key)
            if model in found:
                self.wrong(each, f"The model {model} is here twice, in two spellings.")
            found[model] = self._values(each)
            self.scopes.append((each, (over or {}, found[model])))
        return found

    def _groups(self, entry: Entry) -> tuple[Group, ...]:
        return tuple(self._group(each) for each in self.entries(entry.node, entry.path))

    def _group(self, entry: Entry) -> Group:
        entries = list(self.entries(entry.node, entry.path))
        members = next((self.listed(each) for each in entries if each.key == "members"), frozenset())
        scope = self._scope(entry, [each for each in entries if each.key != "members"])
        return Group(name=entry.key, members=members, scope=scope)

    def _users(self, entry: Entry) -> dict[str, Scope]:
        return {
            each.key: self._scope(each, list(self.entries(each.node, each.path)))
            for each in self.entries(entry.node, entry.path)
        }

    def _scope(self, entry: Entry, entries: list[Entry]) -> Scope:
        values = self._limits([each for each in entries if each.key != "pools"])
        self.scopes.append((entry, (values,)))
        pools = next((self._pools(each, over=values) for each in entries if each.key == "pools"), {})
        return Scope(values=values, pools=pools)

    def _profiles(self, entry: Entry) -> tuple[NodeProfile, ...]:
        found = (self._profile(each) for each in self.entries(entry.node, entry.path))
        return tuple(profile for profile in found if profile is not None)

    def _profile(self, entry: Entry) -> NodeProfile | None:
        parts = {each.key: each for each in self.entries(entry.node, entry.path)}
        wanted = ("model", "gpus", "nodes", "labels")
        for key in parts.keys() - set(wanted):
            self.wrong(parts[key], f"A node profile has {', '.join(wanted)}, and nothing of this name.")
        if missing := [key for key in wanted if key not in parts]:
            self.wrong(entry, f"A node profile has {', '.join(wanted)}: {', '.join(missing)} is missing.")
            return None
        labels = {
            each.key: self.text(each) for each in self.entries(parts["labels"].node, parts["labels"].path)
        }
        if not labels:
            self.wrong(
                parts["labels"], "Name at least one label that all nodes of the pool have, and no others."
            )
        if len(entry.key) > LONGEST_NAME:
            self.wrong(entry, f"The name of a pool has at most {LONGEST_NAME} characters.")
        model = self.text(parts["model"])
        if not names.model_label(model):
            self.wrong(parts["model"], "A model is a name, like NVIDIA-A100-SXM4-80GB.")
        return NodeProfile(
            name=entry.key,
            model=names.model_label(model),
            gpus=self._count(parts["gpus"], MOST_GPUS),
            nodes=self._count(parts["nodes"], MOST_NODES),
            labels=labels,
        )

    def _count(self, entry: Entry, most: int) -> int:
        value = value_of(entry.node) if isinstance(entry.node, yaml.ScalarNode) else None
        if type(value) is int and 1 <= value <= most:
            return value
        self.wrong(entry, f"This must be a whole number from 1 to {most}.")
        return 0

    def _try(self, defaults: Values) -> None:
        """Check that every scope by itself, over the defaults, is a set of limits that a booking can keep."""
        for entry, layers in self.scopes:
            values: dict[str, Any] = dict(defaults)
            for layer in layers:
                values.update(layer)
            try:
                Limits(**values)
            except ValueError as error:
                self.wrong(entry, str(error))
