"""Which XID errors make a GPU unfit."""

import pytest

from deviceplugin.nvml import xids


@pytest.mark.parametrize("number", [13, 31, 43, 45, 68, 109])
def test_an_error_of_one_program_leaves_the_gpu_healthy(number: int) -> None:
    assert not xids.is_critical(number)


@pytest.mark.parametrize("number", [48, 62, 74, 79, 95, 119])
def test_a_hardware_error_is_critical(number: int) -> None:
    assert xids.is_critical(number)


def test_an_unknown_number_is_critical() -> None:
    assert xids.is_critical(4242)
    assert xids.sentence(4242) == "XID 4242: critical GPU error"


def test_a_known_number_says_what_it_means() -> None:
    assert xids.sentence(79) == "XID 79: GPU has fallen off the bus"


def test_no_number_stands_in_two_tables() -> None:
    tables = (xids.APPLICATION, xids.ANNOUNCEMENTS, xids.CRITICAL)
    assert len({number for table in tables for number in table}) == sum(len(table) for table in tables)
