import stat
from pathlib import Path

import pytest

from devcluster.binaries.errors import BuildError
from devcluster.binaries.golang import Go
from devcluster.binaries.toolchain import Toolchain


def go(folder: Path, script: str) -> Go:
    """A go command that does what a shell script says."""
    command = folder / "go"
    command.write_text(f"#!/bin/sh\n{script}\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return Go(Toolchain(command, own=False), folder, cgo=False)


def test_stdout_is_returned_and_every_line_of_stderr_is_passed_on(tmp_path: Path) -> None:
    lines: list[str] = []

    def on_line(line: str) -> bool:
        lines.append(line)
        return False

    output = go(tmp_path, 'echo "$1"; printf "a\\nb" >&2; printf "c\\nd" >&2').run("it", ["list"], on_line)
    assert output == "list\n"
    assert [line for line in lines if line] == ["a", "bc", "d"]


def test_much_output_on_both_pipes_blocks_neither_side(tmp_path: Path) -> None:
    script = "i=0; while [ $i -lt 20000 ]; do echo 1234567890; echo 1234567890 >&2; i=$((i+1)); done"
    output = go(tmp_path, script).run("it", ["list"], lambda _line: True)
    assert len(output) == 20000 * 11


def test_the_caller_can_update_a_clock_while_go_prints_nothing(tmp_path: Path) -> None:
    lines: list[str] = []

    def on_line(line: str) -> bool:
        lines.append(line)
        (tmp_path / "read").write_text("")
        return True

    go(tmp_path, "until [ -e read ]; do sleep 0.1; done").run("it", ["build"], on_line)
    assert lines[0] == ""


def test_a_failure_is_explained_by_the_lines_that_were_no_progress(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"(?s)^It failed with exit status 3\. Go said:\n    broken$"):
        go(tmp_path, "echo compiling >&2; echo broken >&2; exit 3").run(
            "It", ["build"], lambda line: line == "compiling"
        )
