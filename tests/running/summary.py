"""What a red run reports at its end: a few sections that together are short enough to be read."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec

LINES: Final = 80
"""At most so many, from a run's first word about what failed to its last line."""
COLUMNS: Final = 200
"""Width of whatever a run plays, and of what it reports."""
_FAILED_TEST: Final = re.compile(r"^(?:FAILED|ERROR) (?P<test>\S+)(?: - (?P<reason>.*))?$")
_HEADING: Final = re.compile(r"^={3,} (?:FAILURES|ERRORS) =+$")
_NEXT: Final = re.compile(r"^(?:_{3,} .+ _{3,}|={3,} .+ =+)$")
_LAW: Final = re.compile(r"\bLaw (L\d) is broken\b")
_COUNTS: Final = re.compile(r"^=*\s?\d+ (?:failed|passed|error|errors|skipped).* in \d")
_SEEDS: Final = "seeds: "


class Section(msgspec.Struct, frozen=True):
    """Lines under a title.

    Args:
        title: what they are.
        lines: all of them.
        newest: whether its last lines are those that count.
        weight: how many lines of it stay where one of another stays, when all are cut.
    """

    title: str
    lines: tuple[str, ...]
    newest: bool = False
    weight: int = 1


class FailedTest(msgspec.Struct, frozen=True):
    """A test that failed, by the summary at the end of pytest's output; the reason may be empty."""

    test: str
    reason: str


def shorten(sections: Sequence[Section], at_most: int = LINES) -> list[str]:
    """Sections as lines, no wider than COLUMNS: the longest are cut until no more than ``at_most`` are left.

    One that weighs more counts as shorter. A title takes a line of its own; one that was cut
    says of how many lines.
    """
    shown = [len(section.lines) for section in sections]
    while sum(shown) + len(shown) > at_most and any(shown):
        longest = max(range(len(shown)), key=lambda n: shown[n] / sections[n].weight)
        shown[longest] -= 1
    return [
        line[:COLUMNS]
        for section, count in zip(sections, shown, strict=True)
        for line in _cut(section, count)
    ][:at_most]


def _cut(section: Section, count: int) -> list[str]:
    lines, total = section.lines, len(section.lines)
    if not total:
        return [f"{section.title}: none"]
    which = f" ({'last' if section.newest else 'first'} {count} of {total} lines)" if count < total else ""
    kept = lines[total - count :] if section.newest else lines[:count]
    return [f"{section.title}{which}:", *(f"  {line}" for line in kept)]


def failures_in(output: Sequence[str]) -> list[FailedTest]:
    """The tests that failed, as the summary at the end of pytest's output has them."""
    found = [_FAILED_TEST.match(line) for line in output]
    return [
        FailedTest(match["test"], match["reason"] or "") for match in found if match and "::" in match["test"]
    ]


def law_in(failed: FailedTest) -> str:
    """That a law is broken, where that is the reason; else nothing."""
    found = _LAW.search(failed.reason)
    return f"law {found[1]} broken in {failed.test}" if found else ""


def sections_of(output: Sequence[str]) -> list[Section]:
    """What to report of a stage by what it printed: of pytest's output the first failure and the summary."""
    failed = [line for line in output if _FAILED_TEST.match(line)]
    if not failed:
        return [Section("what it printed last", tuple(output), newest=True)]
    ends = [line for line in output if line.startswith(_SEEDS) or _COUNTS.match(line)]
    return [
        Section("the first that failed", tuple(_first_failure(output)), newest=True),
        Section("all that failed", (*failed, *ends)),
    ]


def _first_failure(output: Sequence[str]) -> list[str]:
    """From the heading of the first failure to the next one's."""
    begin = next((n for n, line in enumerate(output) if _HEADING.match(line)), None)
    if begin is None:
        return []
    rest = output[begin + 1 :]
    end = next((n for n, line in enumerate(rest) if n and _NEXT.match(line)), len(rest))
    return list(rest[:end])
