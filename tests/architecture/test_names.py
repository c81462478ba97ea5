"""Every string with our prefix, or that otherwise crosses a process, is written once: in a file of names."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from cluster import claim_names, dialect_names, event_reasons, names
from tests.architecture.checkout import PACKAGES, ROOT, name_of, python_of, texts, tree_of

HOMES = (names, event_reasons, dialect_names, claim_names)
"""The modules in which names are written."""
VALUES = {
    name: value
    for home in HOMES
    for name, value in vars(home).items()
    if name.isupper() and isinstance(value, str)
}
FILES = {Path(str(home.__file__)) for home in HOMES}
PREFIXES = (names.PRODUCT, names.METRICS_PREFIX, names.SETTINGS_PREFIX, names.NVIDIA_PREFIX)
OURS = re.compile("|".join(map(re.escape, (*PREFIXES, names.NODE_LEASE_PREFIX))))

FORMER = {f"{names.STATE_DOMAIN}/rung"}
"""Keys that an earlier release wrote, in what tests/fixtures/formats keeps of it: nobody reads them now."""
OF_THE_API = {f"{names.DOMAIN}/v1"}
"""Group and version of our custom resource, as objects say them."""


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of every string that is no docstring, the pieces of f-strings among them."""
    nodes = list(ast.walk(tree_of(path)))
    silent = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.lineno, node.value


def test_shipped_code_and_the_development_cluster_spell_out_no_name_of_ours() -> None:
    strays = [
        f"{name_of(path)}:{line}: {value!r}"
        for path in python_of(*PACKAGES, "docs", "proto")
        if path not in FILES
        for line, value in literals(path)
        if OURS.search(value) or value in VALUES.values()
    ]
    assert not strays


def test_every_key_of_ours_in_files_of_other_languages_is_in_names() -> None:
    token = re.compile(rf"[\w./-]*{re.escape(names.DOMAIN)}[\w./-]*")
    known = {*VALUES.values(), f"bookings.{names.DOMAIN}", f"{names.STATE_DOMAIN}/", *FORMER, *OF_THE_API}
    strays = {
        f"{name}: {found}"
        for name, text in texts()
        if Path(name).suffix not in {".md", ".py"}
        for found in token.findall(without_prose(text))
        if found.strip(".-") not in known and found not in known and not found.startswith(f"{names.VISIBLE}.")
    }
    assert not strays


def test_every_name_is_used() -> None:
    code = "\n".join(path.read_text() for path in python_of(*PACKAGES, "tests"))
    unused = [
        name
        for home in HOMES
        for name in VALUES.keys() & vars(home).keys()
        if f"{home.__name__.rpartition('.')[2]}.{name}" not in code
        and Path(str(home.__file__)).read_text().count(name) < 2
    ]
    assert not unused


def without_prose(text: str) -> str:
    """A chart or a program without comments and names of its own templates."""
    text = re.sub(r"\{\{-?/\*.*?\*/-?\}\}|/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"(^|\s)(#|//)[ !].*", "", text)
    text = re.sub(r"\b(include|define|template) +\"[^\"]*\"", "", text)
    return re.sub(r"^(module|import|package) .*", "", text, flags=re.MULTILINE)


def test_the_architecture_says_where_each_fact_of_ours_lives_and_who_writes_it() -> None:
    section = (ROOT / "ARCHITECTURE.md").read_text().split("## Where each fact lives")[1].split("\n## ")[0]
    documented = {key.rpartition("/")[2] for key in re.findall(r"`([\w./-]+)`", section)}
    keys = {name.removeprefix(f"{names.STATE_DOMAIN}/") for name in VALUES.values()}
    ours = keys - {*VALUES.values()}
    assert ours
    assert ours - documented == set()
