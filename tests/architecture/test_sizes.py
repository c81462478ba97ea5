"""No file has more than 500 lines, no function more than 60, in any language of ours."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.architecture import sizes
from tests.architecture.checkout import name_of, tracked, tree_of
from tests.architecture.javascript import in_javascript

FILE_LINES = 500
FUNCTION_LINES = 60

LANGUAGES: dict[str, Callable[[str], Iterator[sizes.Length]]] = {
    ".c": sizes.in_braces,
    ".h": sizes.in_braces,
    ".go": sizes.in_braces,
    ".sh": sizes.in_braces,
    ".js": in_javascript,
    ".tpl": sizes.in_templates,
    "Makefile": sizes.in_makefile,
}
WRITTEN_BY_PEOPLE = (
    ".py",
    *LANGUAGES,
    ".proto",
    ".yaml",
    ".yml",
    ".toml",
    ".mod",
    ".html",
    ".css",
    ".sql",
)


def sources() -> list[Path]:
    named = tracked(*WRITTEN_BY_PEOPLE)
    scripts = [path for path in tracked() if not path.suffix and path.read_bytes().startswith(b"#!")]
    return [path for path in {*named, *scripts} if not {"fixtures", "vendor"} & set(path.parts)]


def functions_of(path: Path) -> Iterator[sizes.Length]:
    if path.suffix == ".py":
        return sizes.in_python(tree_of(path))
    measure = next((LANGUAGES[end] for end in LANGUAGES if path.name.endswith(end)), sizes.in_braces)
    return measure(path.read_text())


def test_no_file_is_longer_than_five_hundred_lines() -> None:
    long = {name_of(p): n for p in sources() if (n := len(p.read_text().splitlines())) > FILE_LINES}
    assert not long


def test_no_function_is_longer_than_sixty_lines() -> None:
    long = [
        f"{name_of(path)}: {name} has {lines} lines"
        for path in sources()
        for name, lines in functions_of(path)
        if lines > FUNCTION_LINES
    ]
    assert not long


@pytest.mark.parametrize("end", [".py", ".c", ".go", ".sh", ".js", ".tpl", "Makefile"])
def test_functions_are_found_in_every_language_used_here(end: str) -> None:
    assert [name for path in sources() if path.name.endswith(end) for name, _ in functions_of(path)]


C = """\
static int declared(int a);
int f(int a,
      int b) {
  if (a) {
  }
}
int g(void) {
}
"""
GO = """\
type T struct {
\ta int
}

func (t T) f() error {
\treturn nil
}
"""
SCRIPT = """\
// function no() {
const a = (x) => {
  return x;
};
function b(x, { y = "}" } = {}) {
  if (x) {
    go();
  }
}
const kept = {
  c(x) {
    return `${x ? `{${a(x)}` : "{"}`;
  },
  d: async x => x.replace(/[{`"/]/g, "")
    .trim(),
};
class A {
  static #e(x) {
  }
}
call(1, (x,
  y) => [
  x,
  y,
]);
on("x", function () {
});
(() => {
  go();
})();
"""


@pytest.mark.parametrize(
    ("measure", "text", "expected"),
    [
        (sizes.in_braces, C, [("int f", 5), ("int g", 2)]),
        (sizes.in_braces, GO, [("func (t T) f", 3)]),
        (
            in_javascript,
            SCRIPT,
            [("a", 3), ("b", 5), ("c", 3), ("d", 2), ("#e", 2), ("=>", 5), ("=>", 2), ("=>", 3)],
        ),
        (sizes.in_makefile, "a: b ## c\n\t@x\n\t@y\n\nV := 1\n", [("a", 4)]),
        (sizes.in_templates, '{{- define "a.b" -}}\nx: 1\n{{- end }}\n', [("a.b", 3)]),
    ],
)
def test_a_function_is_measured_from_its_first_line_to_its_last(
    measure: Callable[[str], Iterator[sizes.Length]], text: str, expected: list[sizes.Length]
) -> None:
    assert list(measure(text)) == expected


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("const f = (x) => {", "};"),
        ("const f = x => {", "};"),
        ("const f = (x) => [", "];"),
        ("function f() {", "}"),
        ("const f = async function () {", "};"),
        ("on('x', (event) => {", "});"),
        ("const o = { f(x) {", "} };"),
    ],
)
def test_a_long_function_of_a_script_is_found_within_another_too(opening: str, closing: str) -> None:
    inner = "\n".join([opening, *["  go();"] * 80, closing])
    assert [lines for _, lines in in_javascript(f"(() => {{\n{inner}\n}})();\n")] == [84, 82]


def test_a_function_of_python_is_measured_from_its_first_line_to_its_last() -> None:
    tree = ast.parse("class A:\n    def f(self):\n        x = 1\n        return x\n")
    assert list(sizes.in_python(tree)) == [("f", 3)]
