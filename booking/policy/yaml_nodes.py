"""Nodes of a YAML file: keys and values with their lines, and the mistakes in them. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import yaml

from booking.policy.values import ValueMistakeError

_LONGEST_NUMBER: Final = 7
"""Characters of a whole number, with its sign; a longer one is read as text."""


class Mistake(msgspec.Struct, frozen=True, order=True):
    """A mistake in a policy file."""

    line: int
    key: str
    """``pools.NVIDIA-A100.cooldown``; empty for the file as a whole."""
    message: str

    def __str__(self) -> str:
        """The mistake in one sentence, with its line and key."""
        return f"Line {self.line}{f', {self.key}' if self.key else ''}: {self.message}"


class PolicyError(ValueError):
    """A policy that cannot be used; the text has one sentence per line."""

    def __init__(self, mistakes: list[Mistake]) -> None:
        self.mistakes = tuple(sorted(mistakes))
        super().__init__("\n".join(map(str, self.mistakes)))


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a mapping, and its value."""

    key: str
    path: str
    line: int
    node: yaml.Node


@dataclass(slots=True)
class Nodes:
    """Reads nodes, and collects the mistakes."""

    mistakes: list[Mistake] = field(default_factory=list)

    def entries(self, node: yaml.Node | None, path: str) -> Iterator[Entry]:
        """The entries of a mapping, in order; none for an empty value."""
        if node is None or is_null(node):
            return
        if not isinstance(node, yaml.MappingNode):
            here = Entry("", path, node.start_mark.line + 1, node)
            self.wrong(here, "This must be keys and values, like `cooldown: P14D`.")
            return
        seen = set()
        for key, value in node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) and not is_null(key) else ""
            entry = Entry(name, f"{path}.{name}" if path else name, key.start_mark.line + 1, value)
            if not name:
                self.wrong(entry, "A key is a name.")
            elif name in seen:
                self.wrong(entry, "This key is here twice.")
            else:
                seen.add(name)
                yield entry

    def text(self, entry: Entry) -> str:
        """The text of one value."""
        if isinstance(entry.node, yaml.ScalarNode):
            return str(entry.node.value)
        self.wrong(entry, "This must be one value.")
        return ""

    def listed(self, entry: Entry, *, what: str = "user id", like: str = "[alice, bob]") -> frozenset[str]:
        """The texts of a list."""
        if not isinstance(entry.node, yaml.SequenceNode):
            self.wrong(entry, f"This must be a list of {what}s, like `{like}`.")
            return frozenset()
        wrong = [
            each
            for each in entry.node.value
            if not isinstance(each, yaml.ScalarNode) or not each.value or is_null(each)
        ]
        for each in wrong:
            self.wrong(Entry("", entry.path, each.start_mark.line + 1, each), f"A member is a {what}.")
        return frozenset(str(each.value) for each in entry.node.value if each not in wrong)

    def scalar(self, entry: Entry) -> Any:
        """One value; raises ValueMistakeError where it is not one."""
        node = entry.node
        if not isinstance(node, yaml.ScalarNode):
            raise ValueMistakeError("This must be one value.")
        return value_of(node)

    def wrong(self, entry: Entry, message: str) -> None:
        """Record a mistake."""
        self.mistakes.append(Mistake(entry.line, entry.path, message))


def is_null(node: yaml.Node) -> bool:
    """Whether nothing is written."""
    return isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")


def value_of(node: yaml.ScalarNode) -> Any:
    """The value of a plain scalar: a decimal number, true or false, None, else the unchanged text."""
    text = str(node.value)
    if node.style is not None:
        return text
    if is_null(node):
        return None
    if text in {"true", "false"}:
        return text == "true"
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() and len(digits) <= _LONGEST_NUMBER else text
