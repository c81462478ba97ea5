"""Proofs: which runs are beside busy processes, what ends one, what is shown and kept."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec
import pytest

from cluster.fake.clock import eventually
from cluster.process.clock import SystemClock
from devcluster.procstat import SYSTEM_TICKS, USER_TICKS, fields_of, lives
from tests.running import gate, prove
from tests.running.busy import busy
from tests.running.gate import Took
from tests.running.prove import (
    Planned,
    Proof,
    Row,
    arguments,
    cloned,
    gate_result,
    keep,
    playing_gate,
    playing_test,
    rows_of,
    table,
    under_load,
)

TEST = "tests/e2e/test_x.py::test_a"
SOME_TICKS = 50
EMPTY = Proof(TEST, "abc1234", "2026-11-23T09:00:00+00:00", ("machine: 2 processors",), 3, ())
GREEN = gate.Record(
    "abc1234", "GREEN in 20 s: check 8 s, unit 12 s", (Took("check", 8.0), Took("unit", 12.0))
)


@pytest.mark.parametrize(
    ("times", "at_most", "expected"),
    [
        (10, 3, [False] * 7 + [True] * 3),
        (5, 2, [False] * 3 + [True] * 2),
        (3, 3, [False, False, True]),
        (1, 3, [False]),
    ],
)
def test_the_last_runs_but_never_more_than_half_are_beside_busy_processes(
    times: int, at_most: int, expected: list[bool]
) -> None:
    assert under_load(times, at_most) == expected


def test_the_first_red_run_ends_a_proof() -> None:
    results = iter(["green", "RED: late", "green"])
    rows = list(rows_of([False, True, False], lambda p: Row(p.number, p.busy, 1.0, next(results))))
    assert [(row.number, row.busy, row.result) for row in rows] == [
        (1, False, "green"),
        (2, True, "RED: late"),
    ]


def test_a_proof_is_complete_only_where_every_run_passed(tmp_path: Path) -> None:
    record = tmp_path / "folder" / "prove.json"
    rows = [Row(n, n == 3, 10.0, "green") for n in (1, 2, 3)]
    assert prove.prove(EMPTY, rows, record) == 0
    assert prove.prove(EMPTY, rows[:2], record) == 1
    assert prove.prove(EMPTY, [*rows[:2], Row(3, True, 10.0, "RED: late")], record) == 1


def test_the_table_has_a_line_per_run_and_a_column_per_stage_of_the_gate(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [
        Row(1, False, 20.0, "green", GREEN.stages, ("FLAKED: test_a: late",)),
        Row(2, True, 31.5, "RED: unit", (Took("check", 9.0),)),
    ]
    lines = table(msgspec.structs.replace(EMPTY, rows=tuple(rows)))
    assert lines[0].split() == ["run", "under", "load", "seconds", "check", "unit", "result"]
    assert lines[1].split() == ["1", "no", "20.0", "8", "s", "12", "s", "green"]
    assert lines[2].strip() == "FLAKED: test_a: late"
    assert lines[3].split() == ["2", "yes", "31.5", "9", "s", "RED:", "unit"]
    prove.prove(EMPTY, rows, tmp_path / "prove.json")
    shown = capsys.readouterr().out.splitlines()
    assert shown[-1] == f"== NOT PROVEN: {TEST} passed in 1 of 3 runs"
    assert lines[0] in shown


def test_the_last_proof_of_each_test_is_kept(tmp_path: Path) -> None:
    record = tmp_path / "prove.json"
    other = msgspec.structs.replace(EMPTY, what="make test")
    again = msgspec.structs.replace(EMPTY, commit="def5678")
    for proof in (EMPTY, other, again):
        keep(proof, record)
    assert msgspec.json.decode(record.read_bytes(), type=list[Proof]) == [other, again]


def test_a_test_or_the_gate_can_be_proven() -> None:
    assert (arguments(["--test", TEST]).test, arguments(["--test", TEST]).times) == (TEST, 10)
    assert (arguments(["--gate"]).gate, arguments(["--gate"]).times) == (True, 5)
    assert arguments(["--gate", "--times", "2"]).times == 2


@pytest.mark.parametrize("words", [[], ["--gate", "--test", TEST], ["--test", TEST, "--times", "0"]])
def test_a_proof_of_nothing_is_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as refused:
        arguments(words)
    assert refused.value.code == 2
    assert "make prove: error: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "result"),
    [
        ("def test_a(): pass\n", "green"),
        ("def test_a(): assert 0, 'late'\n", "::test_a failed: AssertionError: late"),
        ("import pytest\ndef test_a(): pytest.skip('no')\ndef test_b(): pass\n", "1 skipped"),
        ("def other(): pass\n", "exit status 5, 0 passed"),
    ],
)
def test_a_run_of_a_test_is_green_where_the_test_ran_and_passed(
    tmp_path: Path, program: str, result: str
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_some.py").write_text(program)
    row = playing_test("test_some.py", SystemClock(), tmp_path)(Planned(1, busy=False))
    assert row.result.endswith(result)
    assert row.is_green == (result == "green")


@pytest.mark.parametrize(
    ("code", "record", "seconds", "is_busy", "expected"),
    [
        (0, GREEN, 720.0, False, "green"),
        (0, GREEN, 721.0, False, "RED: 721 s, more than the 720 s that it may take"),
        (0, GREEN, 1080.0, True, "green"),
        (0, GREEN, 1081.0, True, "RED: 1081 s, more than the 1080 s that it may take"),
        (2, gate.Record("abc1234", "RED: law L1 broken in x", ()), 9.0, False, "RED: law L1 broken in x"),
        (2, None, 9.0, False, "RED: exit status 2, and nothing was written down"),
        (0, None, 9.0, False, "RED: exit status 0, and nothing was written down"),
        (None, None, 2400.0, False, "RED: not at its end within 2400 s"),
    ],
)
def test_a_run_of_the_gate_keeps_its_budget(
    code: int | None, record: gate.Record | None, seconds: float, *, is_busy: bool, expected: str
) -> None:
    assert gate_result(code, record, seconds, is_busy=is_busy) == expected


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose gate is small: green the first time, red afterwards."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "green.json").write_bytes(msgspec.json.encode(GREEN))
    red = gate.Record("abc1234", "RED: unit failed after 3 s with exit status 1", (Took("check", 8.0),))
    (folder / "red.json").write_bytes(msgspec.json.encode(red))
    (folder / "Makefile").write_text(
        "test:\n"
        "\t@mkdir -p .devcluster/logs/gate && echo printed > .devcluster/logs/gate/unit.log\n"
        "\t@[ ! -e .devcluster/played ] || { cp red.json .devcluster/gate.json; exit 1; }\n"
        "\t@cp green.json .devcluster/gate.json && touch .devcluster/played\n"
    )
    git = ("git", "-C", str(folder), "-c", "user.name=alice", "-c", "user.email=alice@example.com")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "A small gate"]):
        subprocess.run([*git, *words], check=True)
    (folder / "Makefile").write_text("test:\n\tfalse\n")  # what is not committed is not proven
    return folder


def test_the_gate_runs_repeatedly_in_a_fresh_clone_of_the_commit(checkout: Path) -> None:
    with cloned(checkout) as clone:
        assert not clone.is_relative_to(checkout)
        play = playing_gate(clone, SystemClock())
        rows = [play(Planned(1, busy=False)), play(Planned(2, busy=True))]
    assert [row.result for row in rows] == ["green", "RED: unit failed after 3 s with exit status 1"]
    assert [len(row.stages) for row in rows] == [2, 1]
    assert not clone.exists()
    assert (checkout / ".devcluster/logs/prove-gate/gate/unit.log").read_text() == "printed\n"


def test_busy_processes_are_busy_and_end_with_their_context() -> None:
    with busy() as pids:
        assert len(pids) == 2
        for pid in pids:
            eventually(partial(_is_busy, pid), deadline=60)
    assert not [pid for pid in pids if lives(pid)]


def test_busy_processes_end_when_their_parent_is_killed() -> None:
    program = (
        "import os, signal\nfrom tests.running.busy import busy\n"
        "with busy() as pids:\n    print(*pids, flush=True)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 2
    eventually(lambda: not any(lives(pid) for pid in pids), deadline=60)


def _is_busy(pid: int) -> bool:
    """Whether a process has taken more processor time than its start takes."""
    fields = fields_of(pid)
    return fields is not None and int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS]) > SOME_TICKS
