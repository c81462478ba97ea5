"""Names and paths in docstrings, comments and documents exist: a move leaves no old one behind.

A dotted name that begins with one of our packages must be a module, or something that a module or a class
binds; a path in backticks must be the end of a path of this checkout. Nothing is imported to find out.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.checkout import MANUAL, PACKAGES, ROOT, name_of, python_of, tracked, tree_of

DOTTED = re.compile(rf"(?<!`)``?((?:{'|'.join(PACKAGES)})(?:\.\w+)+)")
MODULE = re.compile(r"`([\w./-]*\w\.py)`")
CODE_OR_FOLDER = re.compile(r"`([\w./-]*\w\.(?:py|c|h|go)|(?:[\w-]+/)+)`")
TEST = re.compile(r"\b(tests/[\w./-]*\w)(?![\w/*<{-])")
DOCUMENTS = [
    "README.md",
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    *sorted(name_of(path) for path in (*ROOT.glob("docs/*.md"), *MANUAL.glob("*.md"))),
]
NOT_OURS = {"booking.create", "extender.go", "slugs.py"}
"""An action in the audit log, a file of kube-scheduler, and one of kubespawner."""


def prose_of(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of every comment, and of every line of a string that stands alone: a docstring."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as docstring)):
                yield from enumerate(docstring.splitlines(), start=node.lineno)


def is_there(dotted: str) -> bool:
    """Whether a name is of a module, or of what one binds."""
    module, names = dotted, list[str]()
    while module:
        if file := module_file(module):
            return not names or binds(tree_of(file), module, names)
        module, _, last = module.rpartition(".")
        names.insert(0, last)
    return False


def module_file(module: str) -> Path | None:
    stem = ROOT.joinpath(*module.split("."))
    return next((f for f in (stem.with_suffix(".py"), stem / "__init__.py") if f.is_file()), None)


def binds(scope: ast.Module | ast.ClassDef, module: str, names: list[str]) -> bool:
    """Whether a module or a class has the first name, and what that is has the others."""
    name, *rest = names
    for statement in scope.body:
        match statement:
            case ast.ImportFrom(module=str(source), names=imported):
                for alias in imported:
                    if name == (alias.asname or alias.name):
                        return is_there(".".join((source, alias.name, *rest)))
            case ast.ClassDef(name=defined) if defined == name:
                return not rest or binds(statement, module, rest)
            case ast.FunctionDef(name=defined) | ast.AsyncFunctionDef(name=defined) if defined == name:
                return not rest
            case ast.Assign() | ast.AnnAssign() if name in targets_of(statement):
                return not rest
    if isinstance(scope, ast.Module):
        return False
    own = {target for node in ast.walk(scope) for target in targets_of(node)}
    bases = (ast.unparse(base).partition("[")[0] for base in scope.bases)
    return f"self.{name}" in own or any(is_there(".".join((module, base, *names))) for base in bases)


def targets_of(node: ast.AST) -> set[str]:
    match node:
        case ast.Assign(targets=targets):
            return {ast.unparse(target) for target in targets}
        case ast.AnnAssign(target=target):
            return {ast.unparse(target)}
    return set()


def stale_names_in(text: str) -> list[str]:
    """``line: name`` of every name of ours that nothing has."""
    return [
        f"{line}: {name}"
        for line, prose in prose_of(text)
        for name in DOTTED.findall(prose)
        if name not in NOT_OURS and not is_there(name)
    ]


def stale_paths_in(text: str, pattern: re.Pattern[str]) -> list[str]:
    """Paths in backticks with which no path of this checkout ends."""
    paths = set(pattern.findall(text)) - NOT_OURS
    return [path for path in paths if f"/{path}" not in ENDS and not (ROOT / path).exists()]


def ends() -> set[str]:
    """Every path of a file or folder, and how it ends, from each ``/`` on."""
    paths = {name_of(path) for path in tracked()}
    paths |= {f"{folder}/" for path in paths for folder in Path(path).parents}
    return {
        "/" + "/".join(parts[i:]) for path in paths if (parts := path.split("/")) for i in range(len(parts))
    }


ENDS = ends()


def test_names_of_ours_in_docstrings_and_comments_exist() -> None:
    files = python_of(*PACKAGES)
    assert [f"{name_of(f)}:{stale}" for f in files for stale in stale_names_in(f.read_text())] == []


def test_modules_named_by_path_in_docstrings_and_comments_exist() -> None:
    stale = [
        f"{name_of(file)}:{line}: {path}"
        for file in python_of(*PACKAGES)
        for line, prose in prose_of(file.read_text())
        for path in stale_paths_in(prose, MODULE)
    ]
    assert stale == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_in_documents_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    assert stale_paths_in(text, CODE_OR_FOLDER) == []
    assert stale_paths_in(text, TEST) == []


@pytest.mark.parametrize(
    "name",
    [
        "cluster.names",
        "cluster.decide",
        "cluster.names.DOMAIN",
        "cluster.kube.client.KubeClient",
        "cluster.kube.client.KubeClient.create",
        "cluster.decide.ledger.Ledger",
    ],
)
def test_modules_constants_classes_methods_and_reexports_are_recognised(name: str) -> None:
    assert stale_names_in(f'"""As ``{name}`` has it."""') == []


@pytest.mark.parametrize(
    "name",
    [
        "cluster.nowhere",
        "cluster.names.NOWHERE",
        "cluster.nowhere.Ledger",
        "cluster.kube.client.KubeClient.nowhere",
        "cluster.decide.ledger.Nowhere",
        "cluster.names.DOMAIN.nowhere",
    ],
)
def test_a_name_that_does_not_exist_is_found_in_every_kind_of_prose(name: str) -> None:
    assert stale_names_in(f'"""First line.\n\nSee ``{name}``."""') == [f"3: {name}"]
    assert stale_names_in(f"x = 1  # as `{name}(x)` has it") == [f"1: {name}"]
    assert stale_names_in(f'x = 1\n"""As ``{name}``."""') == [f"2: {name}"]
    assert stale_names_in(f'x = "``{name}``"') == []


@pytest.mark.parametrize(
    "path", ["tests/nowhere.py", "ledger/nowhere.py", "decide/nowhere/", "nowhere.py", "ient.py"]
)
def test_a_path_that_does_not_exist_is_found(path: str) -> None:
    assert stale_paths_in(f"see ``{path}``", CODE_OR_FOLDER) == [path]


@pytest.mark.parametrize(
    "path", ["cluster/names.py", "names.py", "cluster/decide/", "decide/", "kube/client.py"]
)
def test_a_path_may_begin_at_any_folder(path: str) -> None:
    assert stale_paths_in(f"see `{path}`", CODE_OR_FOLDER) == []
