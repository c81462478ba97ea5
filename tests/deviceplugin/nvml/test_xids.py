"""Which XID errors make a GPU unfit."""

import pytest

from deviceplugin.nvml import xids


@pytest.mark.parametrize("number", [13, 31, 43, 45, 68, 69, 109, 137])
def test_an_error_of_one_program_leaves_the_gpu_healthy(number: int) -> None:
    assert not xids.DEFAULT.is_critical(number)


@pytest.mark.parametrize("number", [63, 92, 94, 121, 154, 156, 160])
def test_an_announcement_leaves_the_gpu_healthy_and_has_an_explanation(number: int) -> None:
    assert not xids.DEFAULT.is_critical(number)
    assert "critical" not in xids.xid_message(number)


@pytest.mark.parametrize("number", [46, 62, 64, 79, 95, 110, 119, 120, 140, 143, 157, 158, 161])
def test_after_what_only_a_reset_repairs_the_gpu_stays_unfit(number: int) -> None:
    assert xids.DEFAULT.needs_reset(number)


@pytest.mark.parametrize("number", [48, 62, 74, 79, 95, 119])
def test_a_hardware_error_is_critical(number: int) -> None:
    assert xids.DEFAULT.is_critical(number)


def test_an_unknown_number_is_critical() -> None:
    assert xids.DEFAULT.is_critical(4242)
    assert xids.xid_message(4242) == "XID 4242: critical GPU error"


def test_an_administrator_can_remove_and_add_numbers() -> None:
    policy = xids.XidPolicy(ignored=frozenset({79}), added=frozenset({31}))
    assert not policy.is_critical(79)
    assert not policy.needs_reset(79)
    assert policy.is_critical(31)
    assert policy.is_critical(48)


def test_a_number_cannot_be_both_ignored_and_critical() -> None:
    with pytest.raises(xids.ContradictionError, match=r"cannot be both ignored and critical: \[79\]"):
        xids.XidPolicy(ignored=frozenset({79, 1}), added=frozenset({79}))
