"""The strings that Python code makes: literals, f-strings and sums of both, as they will be when it runs.

Bytes are strings, too: what they say as UTF-8.
"""

import ast
from collections.abc import Iterator, Mapping
from typing import Final

HOLE: Final = "\0"
"""Stands for what is known when the code runs, and not before."""


def strings_in(tree: ast.Module, known: Mapping[str, str] | None = None) -> Iterator[tuple[int, str]]:
    """Line and value of every string that is no docstring; what it is put together from is not told alone.

    known: values of constants of ``cluster.names`` by name, for ``names.DOMAIN`` in an f-string.
    """
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    yield from _strings(tree, silent, known or {})


def _strings(node: ast.AST, silent: set[int], known: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    if id(node) in silent and isinstance(node, ast.Constant):
        return
    whole = _value(node, known) if isinstance(node, ast.expr) else None
    if isinstance(node, ast.expr) and whole is not None and whole.strip(HOLE):
        yield node.lineno, whole
    for child in ast.iter_child_nodes(node):
        if whole is None or not _is_part(child):
            yield from _strings(child, silent, known)


def _is_part(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp)


def _value(node: ast.expr | None, known: Mapping[str, str]) -> str | None:
    """The string that an expression is, with holes; None where it is none."""
    whole: str | None = None
    match node:
        case ast.Constant(value=str() as text):
            whole = text
        case ast.Constant(value=bytes() as raw):
            whole = raw.decode(errors="replace")
        case ast.FormattedValue(value=inner):
            whole = _value(inner, known) or HOLE
        case ast.Attribute(value=ast.Name(id="names"), attr=name):
            whole = known.get(name)
        case ast.JoinedStr(values=parts):
            whole = _joined("", parts, known)
        case ast.BinOp(left=left, op=ast.Mod(), right=right):
            whole = _filled(_value(left, known), right, known)
        case ast.BinOp(left=left, op=ast.Add(), right=right) if _value(left, known) or _value(right, known):
            whole = _joined("", [left, right], known)
        case ast.Call(func=ast.Attribute(value=glue, attr="join"), args=[ast.List(elts=parts)]):
            whole = _joined(_glue(glue, known), parts, known)
        case ast.Call(func=ast.Attribute(value=glue, attr="join"), args=[ast.Tuple(elts=parts)]):
            whole = _joined(_glue(glue, known), parts, known)
    return whole


def _filled(text: str | None, right: ast.expr, known: Mapping[str, str]) -> str | None:
    """A text with what ``%`` puts into it: each value in the place of its ``%s``."""
    if text is None:
        return None
    for value in right.elts if isinstance(right, ast.Tuple) else [right]:
        text = text.replace("%s", _value(value, known) or HOLE, 1)
    return text


def _joined(glue: str, parts: list[ast.expr], known: Mapping[str, str]) -> str:
    return glue.join(_value(part, known) or HOLE for part in parts)


def _glue(node: ast.expr, known: Mapping[str, str]) -> str:
    glue = _value(node, known)
    return HOLE if glue is None else glue
