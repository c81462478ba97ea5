"""Names (``cluster/names.py`` and its two neighbours) to which code glues something: what is made is no name.

A name is known by whatever it is called where it is used: ``names.HOLD``, what is imported under another
name, a constant that stands for it, in another module too. What is handed to a function is not followed.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from cluster import claim_names, dialect_names, event_reasons, names
from tests.architecture.checkout import name_of, tree_of
from tests.architecture.strings import BEGIN, END, HOLE, Known, bare, evaluated, marked, string_of, strings_in

Meanings = Mapping[str, str]
"""Dotted name of a constant -> what it stands for, marked."""

HOMES: Final = (names, event_reasons, dialect_names, claim_names)
"""The modules in which names are written."""
_OF_HOMES: Final = [
    (home.__name__, name, value)
    for home in HOMES
    for name, value in vars(home).items()
    if name.isupper() and isinstance(value, str)
]
VALUES: Final = {name: value for _, name, value in _OF_HOMES}
NAMES: Final[Meanings] = {f"{home}.{name}": marked(value) for home, name, value in _OF_HOMES}

_ALONE: Final = re.compile(f"{BEGIN}[^{BEGIN}{END}]+{END}")
_IS_LONGER: Final = re.compile(
    "|".join(
        (
            rf"{END}[-._]?[a-zA-Z0-9]",
            rf"{END}/(?!v\d)[a-zA-Z0-9]",  # names.DOMAIN/v1 is the version of an API
            rf"{END}[-._/]{HOLE}",
            rf"(?<![-._/]){END}{HOLE}",  # a prefix is there to be followed
            rf"(?<![-._/]){END}[-._]?{BEGIN}",
            rf"[-\w]{BEGIN}",
            rf"\w\.{BEGIN}",
            rf"\.\w+/{BEGIN}",
        )
    )
)
"""Letters, digits or what is not known yet, next to a name or behind one of ``-._/``.

What follows a space, a colon or an equals sign is a sentence, an option or a selector.
"""
_PLACES: Final = (f"/{marked(names.PRODUCT)}/", f"{marked(names.METRICS_PREFIX)}_{HOLE}")
"""A folder, or where images are: no key and no object's name has two slashes. And a metric, as it is made."""


def glued_in(tree: ast.Module, meanings: Meanings = NAMES) -> Iterator[tuple[int, str]]:
    """Line and value of every string that is longer than the name in it, or made of one."""
    for line, text in strings_in(tree, known_in(tree, meanings)):
        made = text
        for place in _PLACES:
            made = made.replace(place, bare(place))
        if _IS_LONGER.search(made) or any(map(_is_new, _ALONE.findall(made))):
            yield line, bare(text)


def _is_new(piece: str) -> bool:
    """Whether what is made of a name still reads as one of ours, and is none."""
    return bare(piece) not in VALUES.values() and names.PRODUCT in piece


def meanings_of(paths: Iterable[Path]) -> Meanings:
    """Names, and the constants of modules that stand for one of them, or for such a constant."""
    found = dict(NAMES)
    modules = {_module(path): tree_of(path).body for path in paths}
    while True:
        before = len(found)
        for module, statements in modules.items():
            known = _Known(statements, found)
            known.own.update(known.bound(statements))
            for name, value in known.own.items():
                found.setdefault(f"{module}.{name}", value)
        if len(found) == before:
            return found


def known_in(tree: ast.Module, meanings: Meanings) -> Known:
    """What names and attributes in a file stand for."""
    nodes = list(ast.walk(tree))
    known = _Known(nodes, meanings)
    known.own.update(known.bound(nodes))
    return known


class _Known:
    """Looks a name or an attribute up."""

    def __init__(self, nodes: Iterable[ast.AST], meanings: Meanings) -> None:
        self._meanings = meanings
        self._imported = dict(_imported(nodes))
        self.own: dict[str, str] = {}

    def __call__(self, node: ast.expr) -> str | None:
        first, _, rest = ast.unparse(node).partition(".")
        if first in self._imported:
            return self._meanings.get(".".join(filter(None, (self._imported[first], rest))))
        return self.own.get(rest if first in {"self", "cls"} else f"{first}.{rest}".rstrip("."))

    def bound(self, nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
        """What is bound to nothing but a name, or a piece of one."""
        for node in nodes:
            for target, text in self._given(node):
                if text and _ALONE.fullmatch(text):
                    yield ast.unparse(target).removeprefix("self."), text

    def _given(self, node: ast.AST) -> Iterable[tuple[ast.expr, str | None]]:
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
                return zip(targets, evaluated(value, self) or (), strict=False)
            case ast.Assign(targets=targets, value=value):
                return [(target, string_of(value, self)) for target in targets]
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                return [(target, string_of(value, self))]
            case ast.NamedExpr(target=target, value=value):
                return [(target, string_of(value, self))]
        return ()


def _imported(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """What imports are called here -> what they are."""
    for node in nodes:
        if isinstance(node, ast.Import):
            whole = [alias.name if alias.asname else alias.name.split(".")[0] for alias in node.names]
            yield from ((a.asname or first, first) for a, first in zip(node.names, whole, strict=True))
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((a.asname or a.name, f"{node.module}.{a.name}") for a in node.names)


def _module(path: Path) -> str:
    return name_of(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")
