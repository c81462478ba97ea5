r"""The raw names of each source by which a user is known: the identity rules, read backwards. Pure.

A rule is a regular expression, which cannot be reversed in general. Where the name follows from it, as in
``oidc:(.+)`` to ``\1``, the name is given; elsewhere the expression is. Every name is verified by the rules.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, get_args

import msgspec

from cluster.decide.identity import Rule, Source, user_of
from cluster.decide.jupyterhub_labels import labels_of

SOURCES: Final[tuple[Source, ...]] = get_args(Source)
_REFERENCE: Final = re.compile(r"\\g<(\w+)>|\\(\d+)")
"""A group of the match, in the template of a rule's user."""
_TOKEN: Final = re.compile(r"\\([^A-Za-z0-9])|\[\\?([^\]^])\]|([^\\\[\].^$*+?{}|()])")
"""One character of a name, as a regular expression spells it: escaped, alone in brackets, or itself."""
_GROUPS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\((\?P<\w+>)?(\?)?|\)")
"""What matters to the nesting of groups; a group with ``(?`` that has no name captures nothing."""


class KnownAs(msgspec.Struct, frozen=True, kw_only=True):
    """The names of one source that are one user."""

    source: Source
    names: tuple[str, ...] = ()
    """Raw names, sorted."""
    patterns: tuple[str, ...] = ()
    """Regular expressions of rules by which further names may be this user's."""
    any_case: bool = False
    """Whether these names count however they are capitalised."""
    labels: tuple[str, ...] = ()
    """Values of the label ``names.HUB_USER`` of the pods of these names; only for a JupyterHub."""
    mistaken_for: str | None = None
    """User id that the source gives to a name like this user's, where none of its names is this user's."""


def known_as(user: str, seen: Iterable[str], rules: Iterable[Rule]) -> tuple[KnownAs, ...]:
    """The names of a user, by source.

    Args:
        user: user id.
        seen: raw names that this user has presented, of any source.
        rules: map raw names to user ids.
    """
    rules = tuple(rules)
    return tuple(_of_source(source, user, {user, *seen}, rules) for source in SOURCES)


def _of_source(source: Source, user: str, seen: set[str], rules: tuple[Rule, ...]) -> KnownAs:
    guesses = {rule: _name_for(rule, user) for rule in rules if rule.source == source and _can_be(rule, user)}
    candidates = seen | {guess for guess in guesses.values() if guess is not None}
    found = {
        raw.lower() if rule.folds(raw) else raw
        for raw in candidates
        for rule in _deciding(source, raw, rules)
        if user_of(source, raw, rules) == user
    }
    patterns = tuple(rule.match for rule, guess in guesses.items() if guess is None)
    other = user_of(source, user, rules)
    return KnownAs(
        source=source,
        names=tuple(sorted(found)),
        patterns=patterns,
        any_case=bool(found) and all(r.folds(raw) for raw in found for r in _deciding(source, raw, rules)),
        labels=tuple(sorted({label for raw in found for label in labels_of(raw)}))
        if source == "jupyterhub"
        else (),
        mistaken_for=None if found or patterns or other in {None, user} else other,
    )


def _deciding(source: Source, raw: str, rules: tuple[Rule, ...]) -> list[Rule]:
    """The rule that decides about a raw name, if there is one."""
    return [rule for rule in rules if rule.source == source and rule.match_of(raw)][:1]


def _can_be(rule: Rule, user: str) -> bool:
    """Whether the rule's template can give this user id."""
    group = "([^A-Z]+)" if rule.folds("") else "(.+)"
    pieces = _pieces(rule.user)
    expression = "".join(group if is_group else re.escape(text) for text, is_group in pieces)
    return re.fullmatch(expression, user) is not None


def _name_for(rule: Rule, user: str) -> str | None:
    """The raw name that the rule makes this user; None where it does not follow."""
    pieces = _pieces(rule.user)
    groups = [text for text, is_group in pieces if is_group]
    if not groups:
        return _literal(rule.match)
    if len(groups) > 1:
        return None
    (before, _), _, (after, _) = pieces
    value = user[len(before) : len(user) - len(after)]
    if groups == ["0"]:
        return value
    span = _span_of(groups[0], rule.match)
    if span is None:
        return None
    left, right = _literal(rule.match[: span[0]]), _literal(rule.match[span[1] :])
    return None if left is None or right is None else left + value + right


def _pieces(template: str) -> list[tuple[str, bool]]:
    """Texts of a template, and whether each is the number or name of a group."""
    found: list[tuple[str, bool]] = []
    at = 0
    for each in _REFERENCE.finditer(template):
        found += [(template[at : each.start()], False), (each[1] or each[2], True)]
        at = each.end()
    return [*found, (template[at:], False)]


def _literal(expression: str) -> str | None:
    """The only text that a regular expression matches; None if there may be others."""
    text, at = "", 0
    while at < len(expression):
        token = _TOKEN.match(expression, at)
        if token is None:
            return None
        text, at = text + (token[1] or token[2] or token[3]), token.end()
    return text


def _span_of(group: str, expression: str) -> tuple[int, int] | None:
    """Where a capturing group is written; None inside another group."""
    depth, number, begin = 0, 0, None
    for token, is_opening, name, captures in _nesting(expression):
        if not is_opening:
            depth -= 1
            if begin is not None and depth == 0:
                return begin, token.end()
            continue
        number += captures
        if captures and group in {str(number), name} and depth == 0:
            begin = token.start()
        depth += 1
    return None


def _nesting(expression: str) -> Iterator[tuple[re.Match[str], bool, str | None, bool]]:
    """Parentheses of an expression: whether each opens a group, the group's name, whether it captures."""
    for token in _GROUPS.finditer(expression):
        if token[0] == ")":
            yield token, False, None, False
        elif token[0].startswith("("):
            name = token[1][3:-1] if token[1] else None
            yield token, True, name, name is not None or token[2] is None
