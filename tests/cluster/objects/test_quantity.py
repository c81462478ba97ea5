"""Amounts of resources, as Kubernetes writes them."""

from decimal import Decimal

import pytest

from cluster.objects.quantity import QuantityError, parse_amount


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
        ("9223372036854775807", "9223372036854775807"),
    ],
)
def test_an_amount_is_a_number_and_a_suffix(text: str, amount: str) -> None:
    assert parse_amount(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["", "Gi", "1K", "1gi", "1 Gi", "-1m", "9223372036854775808", "8Ei", "-inf"])
def test_anything_else_is_no_amount(text: str) -> None:
    with pytest.raises(QuantityError, match="not a"):
        parse_amount(text)
