"""How long the functions of a script are: declared, assigned, arrows and methods, nested ones too.

Not a parser: what is quiet (comments, strings, regular expressions, the text of templates) is blanked first,
and brackets are counted in what is left. Statements end with a semicolon here.
"""

import re
from collections.abc import Iterator
from typing import Final

_QUIET: Final = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | '(?:\\.|[^'\\\n])*' | "(?:\\.|[^"\\\n])*"
      | (?<=[(,=:\[!&|?{};\n>]) [ ]* /(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\[\n])+/
    """,
    re.DOTALL | re.VERBOSE,
)
_TEXT: Final = re.compile(r"(?:\\.|\$(?!\{)|[^`\\$])*", re.DOTALL)
_OPEN, _CLOSE = "([{", ")]}"
_HEAD: Final = re.compile(
    r"""\bfunction\b\s*\*?\s*(?P<declared>[\w$]*)\s*\(
      | (?P<arrow>=>)
      | (?:^|[{};,])\s*(?:(?:static|async|get|set)\s+)*\*?\s*
        (?P<method>(?!(?:if|for|while|switch|catch|with|function)\b)[#\w$]+)\s*\(
    """,
    re.MULTILINE | re.VERBOSE,
)
_BODY: Final = re.compile(r"\s*\{")
_ASSIGNED: Final = re.compile(r"([\w$]+)\s*[:=]\s*(?:async\s*)?$")
_ONE_PARAMETER: Final = re.compile(r"(?:async\s+)?[\w$]+\s*$")


def in_javascript(text: str) -> Iterator[tuple[str, int]]:
    """Name of each function, or ``=>``, and its lines."""
    code = _loud(text)
    for head in _HEAD.finditer(code):
        begin, end = _arrow(code, head) if head["arrow"] else _named(code, head)
        if end is not None:
            yield _name(code, head, begin), code.count("\n", begin, end) + 1


def _named(code: str, head: re.Match[str]) -> tuple[int, int | None]:
    """From its name to its last brace; None is the end of what has no body: it is a call."""
    begin = head.start("method") if head["method"] else head.start()
    body = _BODY.match(code, _closed(code, head.end() - 1))
    return begin, _closed(code, body.end() - 1) if body else None


def _arrow(code: str, head: re.Match[str]) -> tuple[int, int]:
    """From its parameters to its last brace, or to the end of what it answers."""
    before = code[: head.start()].rstrip()
    one = _ONE_PARAMETER.search(before)
    begin = one.start() if one else _opened(before)
    body = _BODY.match(code, head.end())
    return begin, _closed(code, body.end() - 1) if body else _answered(code, head.end())


def _name(code: str, head: re.Match[str], begin: int) -> str:
    assigned = _ASSIGNED.search(code[:begin].rstrip(" "))
    return head["declared"] or head["method"] or (assigned[1] if assigned else "=>")


def _closed(code: str, place: int) -> int:
    """Behind the bracket that closes the one that is here."""
    depth = 0
    for at in range(place, len(code)):
        depth += (code[at] in _OPEN) - (code[at] in _CLOSE)
        if not depth:
            return at + 1
    return len(code)


def _opened(code: str) -> int:
    """Where the bracket is opened that is closed at the end."""
    depth = 0
    for at in range(len(code) - 1, -1, -1):
        depth += (code[at] in _CLOSE) - (code[at] in _OPEN)
        if not depth:
            return at
    return 0


def _answered(code: str, place: int) -> int:
    depth = 0
    for at in range(place, len(code)):
        depth += (code[at] in _OPEN) - (code[at] in _CLOSE)
        if depth < 0 or (not depth and code[at] in ",;"):
            return at
    return len(code)


def _loud(text: str) -> str:
    """The code alone; every line stays where it is."""
    code, place, depths = "", 0, list[int]()
    while place < len(text):
        sign, end = text[place], place + 1
        if quiet := _QUIET.match(text, place):
            code, end = code + _blank(quiet[0]), quiet.end()
        elif sign == "`" or (sign == "}" and depths[-1:] == [0]):
            end = _template(text, end, depths, goes_on=sign == "}")
            code += _blank(text[place:end])
        else:
            if depths:
                depths[-1] += (sign == "{") - (sign == "}")
            code += sign
        place = end
    return code


def _template(text: str, place: int, depths: list[int], *, goes_on: bool) -> int:
    """The end of a template's text: behind its last sign, or behind what opens the code in it."""
    if goes_on:
        depths.pop()
    found = _TEXT.match(text, place)
    end = found.end() if found else place
    if text.startswith("${", end):
        depths.append(0)
        return end + 2
    return end + 1


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)
