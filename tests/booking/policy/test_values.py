"""One limit as people write it, and its value."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from booking.durations import Duration
from booking.policy.limits import Limits
from booking.policy.values import (
    LIMIT_NAMES,
    Value,
    ValueMistakeError,
    read_value,
    require_known_limit,
    written_value,
)
from cluster import names

DURATIONS = ("cooldown", "shortest", "longest", "tolerance", "farthest")
OPTIONAL_DURATIONS = ("horizon", "granularity", "spontaneous")
AMOUNTS = ("max_active", "max_planned", "buffer")
OPTIONAL_AMOUNTS = ("max_gpus_per_booking", "max_concurrent_gpus")
SCOPE, SWITCH = "scope", "may_extend"


def refused(limit: str, written: Any) -> str:
    with pytest.raises(ValueMistakeError) as refusal:
        read_value(limit, written)
    return str(refusal.value)


# --- which limits there are ------------------------------------------------------------------------------


def test_every_limit_has_a_kind_and_the_zone_does_not_belong_to_a_scope() -> None:
    kinds = [*DURATIONS, *OPTIONAL_DURATIONS, *AMOUNTS, *OPTIONAL_AMOUNTS, SCOPE, SWITCH]
    assert sorted(kinds) == sorted(LIMIT_NAMES)
    assert {field.name for field in msgspec.structs.fields(Limits)} - set(LIMIT_NAMES) == {"zone"}


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("cooldwn", "There is no limit 'cooldwn' (is cooldown meant?)."),
        ("horizont", "There is no limit 'horizont' (is horizon meant?)."),
        ("max_live", "There is no limit 'max_live' (is max_active and max_planned meant?)."),
        ("extension", "There is no limit 'extension' (is may_extend meant?)."),
        ("start_not_before", "There is no limit 'start_not_before' (is tolerance meant?)."),
        ("member", "There is no limit 'member' (is members meant?)."),
        ("Buffer", "There is no limit 'Buffer' (is buffer meant?)."),
        ("", f"There is no limit '': there are {', '.join(LIMIT_NAMES)}."),
        ("zzz", f"There is no limit 'zzz': there are {', '.join(LIMIT_NAMES)}."),
        ("zone", f"There is no limit 'zone': there are {', '.join(LIMIT_NAMES)}."),
        (
            "end_grace",
            "end_grace is each pod's own (terminationGracePeriodSeconds), and not of the policy.",
        ),
        (
            "warn_before",
            (
                "warn_before is decided by the controller, not by the policy: see its setting "
                f"{names.setting('warn_before')}."
            ),
        ),
    ],
)
def test_an_unknown_limit_is_refused_with_the_closest_one(limit: str, message: str) -> None:
    with pytest.raises(ValueMistakeError) as refusal:
        require_known_limit(limit)
    assert str(refusal.value) == message
    assert refused(limit, 1) == message, "whatever its value is"


def test_only_a_part_of_a_very_long_name_is_shown() -> None:
    assert "'" + "q" * 80 + "'" in refused("q" * 5000, 1)
    assert len(refused("q" * 5000, 1)) < 400


# --- lengths of time -------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [*DURATIONS, *OPTIONAL_DURATIONS])
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("14d", Duration(14)),
        ("P2W", Duration(14)),
        ("336h", Duration(0, 14 * 86400)),
        ("PT15M", Duration(0, 900)),
        ("1d12h", Duration(1, 43200)),
        ("PT0S", Duration()),
    ],
)
def test_a_length_of_time_is_read_in_both_spellings(limit: str, written: str, expected: Duration) -> None:
    assert read_value(limit, written) == expected


@pytest.mark.parametrize("limit", [*DURATIONS, *OPTIONAL_DURATIONS])
@pytest.mark.parametrize("written", [14, 0, True, 1.5, ["14d"], {"days": 14}])
def test_a_length_of_time_without_a_unit_is_refused(limit: str, written: Any) -> None:
    assert refused(limit, written) == (
        f"{limit} is a length of time, such as P14D, PT36H, 14d or 36h, not {written!r}."
    )


@pytest.mark.parametrize("written", ["", "14", "-1d", "two weeks", "P1M", "101y", "P40000D"])
def test_a_text_that_is_not_a_length_of_time_is_refused_under_the_limits_name(written: str) -> None:
    assert refused("cooldown", written).startswith("cooldown: ")


# --- amounts, switches and choices -----------------------------------------------------------------------


@pytest.mark.parametrize("limit", [*AMOUNTS, *OPTIONAL_AMOUNTS])
@pytest.mark.parametrize("written", [0, 1, 7, 10**9])
def test_a_whole_number_is_read_as_it_is_and_judged_with_the_other_limits(limit: str, written: int) -> None:
    assert read_value(limit, written) == written


@pytest.mark.parametrize("limit", [*AMOUNTS, *OPTIONAL_AMOUNTS])
@pytest.mark.parametrize("written", [True, False, 1.0, "1", "many", [1], {}])
def test_an_amount_that_is_not_a_whole_number_is_refused(limit: str, written: Any) -> None:
    assert refused(limit, written) == f"{limit} is a whole number, not {written!r}."


@pytest.mark.parametrize("written", [1, 0, "true", "no", [True]])
def test_a_switch_accepts_nothing_else(written: Any) -> None:
    assert refused(SWITCH, written) == f"may_extend is true or false, not {written!r}."


def test_a_choice_is_one_of_its_words() -> None:
    words = get_args(next(f.type for f in msgspec.structs.fields(Limits) if f.name == SCOPE))
    assert [read_value(SCOPE, word) for word in words] == ["user", "model"]
    assert refused(SCOPE, "User") == "scope is one of user, model, not 'User'."
    assert refused(SCOPE, None) == "scope is one of user, model, not nothing."


# --- no limit at all -------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [*DURATIONS, *AMOUNTS, SCOPE, SWITCH])
@pytest.mark.parametrize("written", [None, "none"])
def test_a_mandatory_limit_cannot_be_lifted(limit: str, written: str | None) -> None:
    assert refused(limit, written)


# --- back again ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Duration(14), "P14D"),
        (Duration(0, 129600), "PT36H"),
        (Duration(), "PT0S"),
        (3, 3),
        (False, False),
        ("model", "model"),
        (None, None),
    ],
)
def test_programs_get_a_value_as_a_file_could_contain_it(value: Value, written: str | int | None) -> None:
    assert written_value(value) == written


@given(st.sampled_from([*DURATIONS, *OPTIONAL_DURATIONS]), st.integers(0, 30000), st.integers(0, 10**6))
def test_a_value_written_for_programs_is_read_back_unchanged(limit: str, days: int, seconds: int) -> None:
    value = Duration(days, seconds)
    assert read_value(limit, written_value(value)) == value


@given(
    st.sampled_from(LIMIT_NAMES), st.recursive(st.none() | st.booleans() | st.text(), st.lists, max_leaves=3)
)
def test_any_input_is_a_value_or_is_refused_with_a_short_message(limit: str, written: Any) -> None:
    message = ""
    try:
        found = read_value(limit, written)
    except ValueMistakeError as error:
        message = str(error)
    if message:
        assert message.startswith(limit)
        assert len(message) < 300
    else:
        assert read_value(limit, written_value(found)) == found
