"""What users see when they type something wrong, or ask for something that does not exist."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from devcluster.__main__ import main
from devcluster.commands import output
from devcluster.errors import ClusterError, tail
from devcluster.paths import STATE_SETTING


def invoke(tmp_path: Path, *words: str) -> tuple[int, str]:
    done = CliRunner(env={STATE_SETTING: str(tmp_path)}).invoke(main, words)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    "words",
    [
        ("kill", "--name", "nobody", "etcd"),
        ("pause", "--name", "nobody", "node-a"),
        ("log", "--name", "nobody", "etcd"),
        ("kubectl", "--name", "nobody", "get", "pods"),
    ],
)
def test_asking_for_a_missing_cluster_reports_how_to_start_it(tmp_path: Path, words: tuple[str, ...]) -> None:
    code, text = invoke(tmp_path, *words)

    assert code == 1
    command = ".venv/bin/python -m devcluster up --name nobody"
    assert text == f"Error: There is no cluster nobody. `{command}` starts one.\n"


def test_a_wrong_name_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    code, text = invoke(tmp_path, "up", "--name", "Not/A/Name")

    assert code == 1
    assert text.startswith("Error: A cluster cannot be called 'Not/A/Name': a name has 1 to 20 characters")
    assert list(tmp_path.iterdir()) == []


def test_without_a_cluster_status_lists_none(tmp_path: Path) -> None:
    code, text = invoke(tmp_path, "status")

    # Clusters of others are listed: the machine is not this test's alone.
    assert code == 0
    assert text == "no clusters\n" or all(
        line.startswith("  ") or " in /" in line for line in text.splitlines()
    )
    assert str(tmp_path) not in text


def test_leftovers_of_a_killed_start_are_listed_with_the_command_that_removes_them(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()

    code, text = invoke(tmp_path, "status")

    assert code == 0
    assert "half: does not run" in text
    assert "python -m devcluster down --name half" in text


def test_a_command_that_fails_is_reported_with_its_output() -> None:
    with pytest.raises(ClusterError, match=r"`ls /no/such/folder` failed with 2: ls: cannot access"):
        output(["ls", "/no/such/folder"])


def test_a_command_that_is_missing_is_named() -> None:
    with pytest.raises(ClusterError, match="Cannot run /no/such/program: No such file"):
        output(["/no/such/program"])


def test_the_end_of_a_log_is_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(10_000)))

    assert tail(log, 2) == "  line 9998\n  line 9999"


def test_a_missing_or_empty_log_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()

    assert "no log" in tail(tmp_path / "none")
    assert "is empty" in tail(tmp_path / "empty")
