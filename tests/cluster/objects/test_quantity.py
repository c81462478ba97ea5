"""Amounts of resources, as Kubernetes writes them."""

from contextlib import suppress
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.objects.quantity import QuantityError, parse_amount, parse_count

LARGEST = 2**63 - 1
SUFFIXES = {
    "": Fraction(1),
    **{suffix: Fraction(1, 1000**power) for power, suffix in enumerate("mun", 1)},
    **{suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)},
}
"""Suffix -> factor, as the powers that they are."""


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("0", "0"),
        ("500m", "0.5"),
        ("1u", "0.000001"),
        ("1n", "0.000000001"),
        ("1.5", "1.5"),
        ("3k", "3000"),
        ("1M", "1000000"),
        ("2G", "2000000000"),
        ("1T", "1000000000000"),
        ("1P", "1000000000000000"),
        ("1E", "1000000000000000000"),
        ("1Ki", "1024"),
        ("1.5Mi", "1572864"),
        ("10Gi", "10737418240"),
        ("1Ti", "1099511627776"),
        ("1Pi", "1125899906842624"),
        ("1Ei", "1152921504606846976"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("25e-1", "2.5"),
        ("1e+2", "100"),
        ("5.", "5"),
        (".5", "0.5"),
        ("+.5Ki", "512"),
        ("-0", "0"),
        ("0e999999999", "0"),
        ("9223372036854775807", "9223372036854775807"),
    ],
)
def test_an_amount_is_a_number_and_a_suffix(text: str, amount: str) -> None:
    assert parse_amount(text) == Decimal(amount)


@pytest.mark.parametrize(
    "text",
    [
        *("", "Gi", "1K", "1gi", "1 Gi", "-1m", "9223372036854775808", "8Ei", "-inf", "NaN", "sNaN"),
        *(".", "+", "+-1", "1.2.3", "0x10", "e3", "1e", "1ee3", "1e3Ki", "1e1.5", "1mm", "1Gib", "1,5"),
        *("1e999999999", "1e9999999999999999999999", "1e-99999999999999999999"),
        pytest.param("1_000", id="Python's underscores"),
        pytest.param(" 5", id="a blank before it"),
        pytest.param("5\n", id="a new line after it"),
        pytest.param("5\u00a0", id="a blank that does not break"),
        pytest.param("٤٠", id="digits of another script"),
        pytest.param("\uff11", id="a wide digit"),
    ],
)
def test_anything_else_is_no_amount(text: str) -> None:
    with pytest.raises(QuantityError, match="not a"):
        parse_amount(text)


NUMBERS = st.integers(0, 10**9)
DIGITS = st.tuples(NUMBERS, st.integers(0, 6))
"""A number, and how many of its digits come after the point."""


def written(digits: tuple[int, int], suffix: str) -> str:
    number, after = digits
    text = str(number).rjust(after + 1, "0")
    return (f"{text[:-after]}.{text[-after:]}" if after else text) + suffix


@given(DIGITS, st.sampled_from(sorted(SUFFIXES)))
def test_an_amount_is_its_number_times_the_power_of_its_suffix(digits: tuple[int, int], suffix: str) -> None:
    text = written(digits, suffix)
    exact = Fraction(digits[0], 10 ** digits[1]) * SUFFIXES[suffix]
    if exact > LARGEST:
        with pytest.raises(QuantityError):
            parse_amount(text)
    else:
        assert Fraction(parse_amount(text)) == exact


@given(DIGITS, st.sampled_from(sorted(SUFFIXES)))
def test_a_count_is_a_whole_amount(digits: tuple[int, int], suffix: str) -> None:
    text = written(digits, suffix)
    exact = Fraction(digits[0], 10 ** digits[1]) * SUFFIXES[suffix]
    if exact.denominator == 1 and exact <= LARGEST:
        assert parse_count(text) == exact
    else:
        with pytest.raises(QuantityError, match="not"):
            parse_count(text)


@given(st.text("0123456789.+-eEinumkKMGTP_ ", max_size=12))
def test_any_text_is_an_amount_that_can_be_stored_or_an_error(text: str) -> None:
    with suppress(QuantityError):
        assert 0 <= parse_amount(text) <= LARGEST
        assert not set(text) & set("_ ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("500m", "'500m' is not a whole number of devices."),
        ("two", "'two' is not a Kubernetes quantity."),
        ("-1", "'-1' is not an amount of anything."),
    ],
)
def test_an_error_contains_the_text_and_what_is_wrong_with_it(text: str, message: str) -> None:
    for _ in "twice":  # what is kept of earlier texts are numbers, never errors
        with pytest.raises(QuantityError) as raised:
            parse_count(text)
        assert str(raised.value) == message
