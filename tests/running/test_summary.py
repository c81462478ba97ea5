"""What a red run shows at its end: short, with the newest lines of logs and the first of everything else."""

import pytest

from tests.running.summary import (
    COLUMNS,
    LINES,
    FailedTest,
    Section,
    failures_in,
    law_in,
    sections_of,
    shorten,
)

PYTEST = """\
..F.E                                                                    [100%]
=================================== FAILURES ===================================
___________________________________ test_one ___________________________________

    def test_one():
>       assert 1 == 2
E       assert 1 == 2

tests/some/test_a.py:3: AssertionError
___________________________________ test_two ___________________________________
tests/some/test_a.py:9: AssertionError
seeds: --randomly-seed=7
============================= slowest 10 durations =============================
7.00s call     tests/some/test_a.py::test_slow
=========================== short test summary info ============================
SKIPPED [1] tests/some/test_b.py:4: no card
FAILED tests/some/test_a.py::test_one - assert 1 == 2
FAILED tests/some/test_a.py::test_two - tests.laws.broken.LawBrokenError: Law L1 is broken: GPU-1 has two pods
ERROR tests/some/test_a.py::test_three[a-b]
2 failed, 1 passed, 1 skipped, 1 error in 3.20s
make: *** [Makefile:55: unit] Error 1
""".splitlines()


def lines(count: int, name: str = "line") -> tuple[str, ...]:
    return tuple(f"{name} {number}" for number in range(count))


def test_a_short_text_is_shown_whole() -> None:
    shown = shorten([Section("pods", ("a", "b")), Section("events", ())])
    assert shown == ["pods:", "  a", "  b", "events: none"]


@pytest.mark.parametrize("sections", [1, 3, 9, 30, 100])
def test_at_most_eighty_lines_are_shown(sections: int) -> None:
    shown = shorten([Section(f"log {n}", lines(15 + n), newest=True) for n in range(sections)])
    assert len(shown) <= LINES
    assert len(shown) == LINES or sections < 5


def test_the_longest_section_is_cut_first_and_its_heading_reports_it() -> None:
    shown = shorten([Section("short", lines(3)), Section("long", lines(50))], at_most=15)
    assert shown[:4] == ["short:", "  line 0", "  line 1", "  line 2"]
    assert shown[4] == "long (first 10 of 50 lines):"
    assert shown[-1] == "  line 9"


def test_a_section_with_more_weight_keeps_more_lines() -> None:
    shown = shorten([Section("log", lines(50)), Section("pods", lines(50), weight=4)], at_most=22)
    assert shown[0] == "log (first 4 of 50 lines):"
    assert shown[5] == "pods (first 16 of 50 lines):"


def test_the_newest_lines_of_a_log_are_kept() -> None:
    assert shorten([Section("log", lines(9), newest=True)], at_most=3) == [
        "log (last 2 of 9 lines):",
        "  line 7",
        "  line 8",
    ]


def test_no_line_is_wider_than_a_screen() -> None:
    assert [len(line) for line in shorten([Section("log", ("x" * 1000,))])] == [4, COLUMNS]


def test_failures_are_read_from_the_summary() -> None:
    assert failures_in(PYTEST) == [
        FailedTest("tests/some/test_a.py::test_one", "assert 1 == 2"),
        FailedTest(
            "tests/some/test_a.py::test_two",
            "tests.laws.broken.LawBrokenError: Law L1 is broken: GPU-1 has two pods",
        ),
        FailedTest("tests/some/test_a.py::test_three[a-b]", ""),
    ]
    assert [law_in(failed) for failed in failures_in(PYTEST)] == [
        "",
        "law L1 broken in tests/some/test_a.py::test_two",
        "",
    ]


def test_the_first_failure_and_the_summary_of_pytests_output_are_shown() -> None:
    shown = "\n".join(shorten(sections_of(PYTEST)))
    assert "E       assert 1 == 2" in shown
    assert "tests/some/test_a.py:3: AssertionError" in shown
    assert "tests/some/test_a.py:9" not in shown
    assert "FAILED tests/some/test_a.py::test_two" in shown
    assert "ERROR tests/some/test_a.py::test_three" in shown
    assert "seeds: --randomly-seed=7" in shown
    assert "2 failed, 1 passed" in shown
    assert not any(word in shown for word in ("SKIPPED", "slowest", "make:"))


def test_the_end_of_any_other_output_is_shown() -> None:
    shown = shorten(sections_of(lines(500, "cluster/x.py:1: error")))
    assert len(shown) == LINES
    assert shown[-1] == "  cluster/x.py:1: error 499"
