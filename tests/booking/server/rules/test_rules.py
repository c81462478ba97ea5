from pathlib import Path

from booking.server import rules
from booking.server.rules import RULES
from tests.fakes.records import a_record, day
from tests.fakes.rule_cases import a_case


def test_the_five_rules_of_the_manual_are_all_applied() -> None:
    history = [a_record(day(-1), day(1)), a_record(day(2), day(4))]
    short = a_case(day(5), day(5.5), history=history)
    long = a_case(day(5), day(50), history=history)
    broken = {violation.rule for rule in RULES for case in (short, long) if (violation := rule(case))}
    assert broken == {"no-active-overlap", "one-planned", "cooldown", "shortest", "longest"}


def test_a_first_booking_of_a_week_breaks_no_rule() -> None:
    assert not [rule for rule in RULES if rule(a_case(day(0), day(7)))]


def test_every_file_is_a_rule_that_is_applied() -> None:
    files = {path.stem for path in Path(str(rules.__file__)).parent.glob("[a-z]*.py")}
    assert files == {rule.__name__ for rule in RULES}
