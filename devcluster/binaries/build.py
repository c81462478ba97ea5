"""Builds one tool: fetch its modules, see what must be compiled, compile and link it with progress."""

import re
from dataclasses import replace
from pathlib import Path

from devcluster.binaries.errors import BuildError
from devcluster.binaries.golang import Go
from devcluster.binaries.pins import MODULES, Tool, build_flags, version
from devcluster.binaries.progress import LISTING, Counter, Progress, Report
from devcluster.binaries.toolchain import Toolchain


def modules_known(go_sum: str) -> int:
    """How many modules must be fetched at most: those whose contents go.sum pins."""
    return len(re.findall(r"^\S+ v\S+(?<!/go\.mod) h1:", go_sum, flags=re.MULTILINE))


def build(tool: Tool, toolchain: Toolchain, folder: Path, report: Report) -> None:
    """Build every executable of a tool into a folder, under our names.

    Raises:
        BuildError: Go failed, or did not make what was expected.

    """
    pinned = version(tool)
    subject = f"{tool.name} {pinned}"
    go = Go(toolchain, MODULES / tool.name, cgo=tool.cgo)
    flags = build_flags(tool, pinned)
    listing = _list_packages(go, subject, [*flags, tool.packages], report)

    counter = Counter(subject, listing)
    report(counter.progress)

    def is_progress(line: str) -> bool:
        was_progress = counter.line(line)
        report(counter.progress)
        return was_progress

    out = folder / f"{tool.name}.out"
    out.mkdir()
    go.run(f"Building {subject}", ["build", *flags, "-v", "-o", f"{out}/", tool.packages], is_progress)
    _take(tool, out, folder)
    report(Progress(subject, "done"))


def _list_packages(go: Go, subject: str, arguments: list[str], report: Report) -> str:
    """Fetch missing modules, and list every package and whether it must be compiled."""
    go_sum = (MODULES / subject.split(" ", 1)[0] / "go.sum").read_text(encoding="utf-8")
    progress = Progress(subject, "reading packages")

    def is_progress(line: str) -> bool:
        nonlocal progress
        is_download = line.startswith("go: downloading ")
        if is_download:
            done = progress.done + 1
            known = max(modules_known(go_sum), done)
            progress = replace(progress, doing="fetching modules", done=done, known=known, at_most=True)
        report(progress)
        return is_download

    report(progress)
    what = f"Fetching the modules of {subject}"
    return go.run(what, ["list", "-deps", "-f", LISTING, *arguments], is_progress)


def _take(tool: Tool, out: Path, folder: Path) -> None:
    """Move what Go made into the folder, under our names, and add the links."""
    for theirs, ours in tool.outputs:
        if not (out / theirs).is_file():
            made = ", ".join(sorted(file.name for file in out.iterdir())) or "nothing"
            raise BuildError(
                f"Building {tool.name} was to make {theirs}, but made {made}: see modules/{tool.name}."
            )
        (out / theirs).rename(folder / ours)
    for link in tool.links:
        (folder / link).symlink_to(tool.outputs[0][1])
    out.rmdir()
