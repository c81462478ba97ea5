"""Prepares the documents as pages of a site: ``make site`` builds it with Zensical.

The site has README.md as its first page, everything in docs/, and the documents of the checkout's root. Links
between them are those of the site; a link to any other file of the checkout is text there.
"""

import re
import shutil
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from docs.tables.markdown import ROOT

CONFIGURATION: Final = "zensical.toml"
DOCS: Final = "docs"
OF_THE_ROOT: Final = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Documents outside docs/ -> their page."""
COPIED: Final = ("examples", "images")
"""Folders of docs/ that pages show."""
_REST: Final = "  # Pages without a place.\n"
_LINK: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE: Final = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.DOTALL | re.MULTILINE)


def pages(root: Path = ROOT) -> dict[str, str]:
    """Path of a document in the checkout -> its page in the site."""
    found = (path.relative_to(root / DOCS) for path in sorted((root / DOCS).rglob("*.md")))
    own = {
        f"{DOCS}/{path}": str(path.with_name("index.md" if path.name == "README.md" else path.name))
        for path in found
    }
    return {**OF_THE_ROOT, **own}


def rendered(text: str, document: str, known: Mapping[str, str]) -> str:
    """A document's text with the links of the site.

    Args:
        text: in Markdown.
        document: its path in the checkout.
        known: path of a document, or of a folder that is copied -> its place in the site.
    """
    folder, page = PurePosixPath(document).parent, PurePosixPath(known[document])

    def replaced(link: re.Match[str]) -> str:
        picture, words, target = link.groups()
        if "://" in target or target.startswith("#"):
            return link[0]
        path, mark, anchor = target.partition("#")
        place = _place(_normal(folder / path), known)
        if place is None:
            return words
        return f"{picture}[{words}]({_relative(place, page.parent)}{mark}{anchor})"

    parts = _FENCE.split(text)
    return "".join(part if odd % 2 else _LINK.sub(replaced, part) for odd, part in enumerate(parts))


def placed(configuration: str, known: Mapping[str, str]) -> str:
    """The configuration with those pages in its tree that nobody has given a place; decisions have an index.

    Args:
        configuration: text of zensical.toml.
        known: as for ``rendered``.
    """
    there = set(leaves(tomllib.loads(configuration)["project"]["nav"]))
    rest = [
        page
        for page in known.values()
        if page.endswith(".md") and page not in there and not page.startswith("adr/")
    ]
    return configuration.replace(_REST, f"  {{ More = {rest} }},\n" if rest else "").replace("'", '"')


def leaves(tree: Any) -> list[str]:
    """Every page in a tree of the configuration."""
    if isinstance(tree, str):
        return [tree]
    branches = tree.values() if isinstance(tree, dict) else tree
    return [leaf for branch in branches for leaf in leaves(branch)]


def main() -> int:
    """Write the pages and the configuration into a folder. Returns the exit code."""
    target = Path(sys.argv[1])
    shutil.rmtree(target, ignore_errors=True)
    known = pages() | {f"{DOCS}/{name}": name for name in COPIED}
    for document, page in pages().items():
        written = target / "pages" / page
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(rendered((ROOT / document).read_text(), document, known))
    for name in COPIED:
        shutil.copytree(ROOT / DOCS / name, target / "pages" / name)
    (target / CONFIGURATION).write_text(placed((ROOT / CONFIGURATION).read_text(), pages()))
    return 0


def _place(path: str, known: Mapping[str, str]) -> str | None:
    """Where a file of the checkout is in the site; None if it is not there."""
    if path in known:
        return known[path]
    for folder, place in known.items():
        if path.startswith(f"{folder}/") and folder in {f"{DOCS}/{name}" for name in COPIED}:
            return f"{place}/{path.removeprefix(f'{folder}/')}"
    return known.get(f"{path}/README.md")


def _normal(path: PurePosixPath) -> str:
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts = parts[:-1]
        else:
            parts.append(part)
    return "/".join(parts)


def _relative(place: str, folder: PurePosixPath) -> str:
    ups = len([part for part in folder.parts if part != "."])
    return f"{'../' * ups}{place}"


if __name__ == "__main__":
    sys.exit(main())
