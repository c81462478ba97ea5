"""What is read of a certificate without a library: when it ends."""

from datetime import UTC, datetime, timedelta

import pytest

from booking.controller.admission.certificate_authority import (
    AUTHORITY_LASTS,
    CERTIFICATE_LASTS,
    new_authority,
    new_certificate,
)
from cluster.process.certificates import CertificateExpiry, KeyPair, UnreadableCertificateError, ends_at

NOW = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize("years", [0, 12, 30], ids=["UTCTime", "an authority beyond 2049", "GeneralizedTime"])
def test_the_end_of_a_certificate_is_read_before_and_after_2050(years: int) -> None:
    made = NOW + timedelta(days=365 * years)
    authority = new_authority(made)
    server = new_certificate(authority, ["webhook.example", "10.0.0.1", "a" * 200], made)
    assert ends_at(authority.certificate) == made + AUTHORITY_LASTS
    assert ends_at(server.certificate) == made + CERTIFICATE_LASTS


def test_the_first_certificate_of_a_chain_counts() -> None:
    authority = new_authority(NOW)
    server = new_certificate(authority, ["webhook.example"], NOW)
    chain = b"subject=webhook.example\n" + server.certificate + authority.certificate
    assert ends_at(chain) == NOW + CERTIFICATE_LASTS


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\nMIIB",
        new_authority(NOW).key,
    ],
)
def test_a_text_that_is_no_certificate_is_an_error(text: bytes) -> None:
    with pytest.raises(UnreadableCertificateError, match="not a certificate in PEM"):
        ends_at(text)


def test_the_end_of_a_certificate_is_noted_when_it_is_served_and_not_before() -> None:
    ends, served = CertificateExpiry(), list[KeyPair]()
    pair = new_certificate(new_authority(NOW), ["webhook.example"], NOW)
    present = ends.recorded(served.append)
    assert ends.at() is None
    present(pair)
    assert served == [pair]
    assert ends.at() == (NOW + CERTIFICATE_LASTS).timestamp()


def test_a_certificate_that_cannot_be_served_keeps_the_end_of_the_former_one() -> None:
    ends = CertificateExpiry()
    present = ends.recorded(list[KeyPair]().append)
    present(new_certificate(new_authority(NOW), ["webhook.example"], NOW))

    def refuse(_pair: KeyPair) -> None:
        raise OSError("broken")

    with pytest.raises(OSError, match="broken"):
        ends.recorded(refuse)(new_certificate(new_authority(NOW), ["other.example"], NOW + timedelta(days=9)))
    assert ends.at() == (NOW + CERTIFICATE_LASTS).timestamp()
