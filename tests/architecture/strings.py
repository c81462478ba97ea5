"""The strings that Python code makes: literals, and what is put together of them.

Sums, f-strings, both kinds of formats, joins, and what a string is asked for (``"a/b".split("/")[0]``). Bytes
are strings, too: what they say as UTF-8.
"""

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from string import Formatter
from typing import Any, Final

HOLE: Final = "\0"
"""Stands for what is known when the code runs, and not before."""
BEGIN, END = "\1", "\2"
"""Around what a name stands for."""

Known = Callable[[ast.expr], str | None]
"""What a name or an attribute stands for, ``marked``; None where nobody knows."""

_METHODS: Final = frozenset(
    {
        *("capitalize", "casefold", "encode", "decode", "lower", "upper", "title", "replace"),
        *("strip", "lstrip", "rstrip", "removeprefix", "removesuffix"),
        *("partition", "rpartition", "split", "rsplit"),
    }
)
"""The methods of a string whose result is worked out where the string and all arguments are known."""


def marked(text: str) -> str:
    """What a name stands for, distinguished from what is put around it."""
    return f"{BEGIN}{text}{END}"


def bare(text: str) -> str:
    """A string without these marks."""
    return text.replace(BEGIN, "").replace(END, "")


def unknown(_: ast.expr) -> None:
    """No name stands for anything."""


def strings_in(tree: ast.Module, known: Known = unknown) -> Iterator[tuple[int, str]]:
    """Line and value of every string that is no docstring; its parts are not given separately."""
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    yield from _strings(tree, silent, known)


def _strings(node: ast.AST, silent: set[int], known: Known) -> Iterator[tuple[int, str]]:
    if id(node) in silent and isinstance(node, ast.Constant):
        return
    whole = string_of(node, known) if isinstance(node, ast.expr) else None
    if isinstance(node, ast.expr) and whole is not None and whole.strip(HOLE):
        yield node.lineno, whole
    for child in ast.iter_child_nodes(node):
        if whole is None or not _is_part(child):
            yield from _strings(child, silent, known)


def _is_part(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp)


def string_of(node: ast.expr, known: Known) -> str | None:
    """The string that an expression is, with holes; None where it is none."""
    whole: str | None = None
    match node:
        case ast.Constant(value=str() as text):
            whole = text
        case ast.Constant(value=bytes() as raw):
            whole = raw.decode(errors="replace")
        case ast.FormattedValue(value=inner):
            whole = string_of(inner, known) or HOLE
        case ast.NamedExpr(value=inner):
            whole = string_of(inner, known)
        case ast.Name() | ast.Attribute():
            whole = known(node)
        case ast.JoinedStr(values=parts):
            whole = _joined("", parts, known)
        case ast.BinOp(left=left, op=operator, right=right):
            whole = _sum(left, operator, right, known)
        case ast.Call() | ast.Subscript():
            whole = _called(node, known)
    return whole


def _sum(left: ast.expr, operator: ast.operator, right: ast.expr, known: Known) -> str | None:
    first = string_of(left, known)
    if isinstance(operator, ast.Mod):
        return _filled(first, right, known)
    is_text = isinstance(operator, ast.Add) and (first or string_of(right, known))
    return _joined("", [left, right], known) if is_text else None


def _called(node: ast.Call | ast.Subscript, known: Known) -> str | None:
    match node:
        case ast.Call(func=ast.Attribute(value=glue, attr="join"), args=[ast.List() | ast.Tuple() as parts]):
            return _joined(_glue(glue, known), parts.elts, known)
        case ast.Call(func=ast.Attribute(value=text, attr="format")):
            return _formatted(string_of(text, known), node, known)
    found = evaluated(node, known)
    return found if isinstance(found, str) else None


def _filled(text: str | None, right: ast.expr, known: Known) -> str | None:
    """A text with what ``%`` puts into it: each value in the place of its ``%s``."""
    if text is None:
        return None
    for value in right.elts if isinstance(right, ast.Tuple) else [right]:
        text = text.replace("%s", string_of(value, known) or HOLE, 1)
    return text


def _formatted(text: str | None, call: ast.Call, known: Known) -> str | None:
    """A text with what ``format`` puts into it."""
    if text is None:
        return None
    given = {str(place): value for place, value in enumerate(call.args)}
    given |= {each.arg: each.value for each in call.keywords if each.arg}
    places, whole = count(), ""
    for literal, field in _fields(text):
        key = None if field is None else re.split(r"[.\[]", field)[0] or str(next(places))
        value = given.get(key) if key else None
        whole += literal + ("" if key is None else (value and string_of(value, known)) or HOLE)
    return whole


def _fields(text: str) -> Iterator[tuple[str, str | None]]:
    """Each piece of a format with the field behind it; a text that is no format is one piece."""
    try:
        yield from [(literal, field) for literal, field, *_ in Formatter().parse(text)]
    except ValueError:
        yield text, None


def evaluated(node: ast.expr, known: Known) -> str | Sequence[str] | None:
    """What a method of a string answers, or one of several strings; marked where the string itself is."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=method), args=given, keywords=[]):
            text = string_of(owner, known) if method in _METHODS else None
            return None if text is None else _answer(text, method, given, known)
        case ast.Subscript(value=owner, slice=place):
            several = string_of(owner, known) or evaluated(owner, known)
            return None if several is None else _picked(several, place)
    return None


def _answer(text: str, method: str, given: list[ast.expr], known: Known) -> str | Sequence[str] | None:
    try:
        words = [_word(each, known) for each in given]
        found = bare(text) if method in {"encode", "decode"} else getattr(bare(text), method)(*words)
    except (TypeError, ValueError):
        return None
    mark = marked if BEGIN in text else str
    return mark(found) if isinstance(found, str) else tuple(map(mark, found))


def _word(node: ast.expr, known: Known) -> object:
    text = string_of(node, known)
    return ast.literal_eval(node) if text is None else bare(text)


def _picked(several: str | Sequence[str], place: ast.expr) -> str | Sequence[str] | None:
    ends = [place.lower, place.upper, place.step] if isinstance(place, ast.Slice) else [place]
    mark = marked if isinstance(several, str) and BEGIN in several else str
    whole = bare(several) if isinstance(several, str) else several
    try:
        values: list[Any] = [None if each is None else ast.literal_eval(each) for each in ends]
        found: str | Sequence[str] = whole[slice(*values) if isinstance(place, ast.Slice) else values[0]]
    except (IndexError, TypeError, ValueError):
        return None
    return mark(found) if isinstance(found, str) else found


def _joined(glue: str, parts: list[ast.expr], known: Known) -> str:
    return glue.join(string_of(part, known) or HOLE for part in parts)


def _glue(node: ast.expr, known: Known) -> str:
    glue = string_of(node, known)
    return HOLE if glue is None else glue
