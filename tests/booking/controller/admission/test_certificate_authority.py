"""The webhook's own authority and certificate."""

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from booking.controller.admission.certificate_authority import (
    KeyPair,
    UnreadableError,
    is_whole,
    needs_renewal,
    new_authority,
    new_certificate,
    service_names,
    vouches,
)
from cluster import names
from tests.fakes.objects import EPOCH

HOSTS = service_names(names.WEBHOOK_SERVICE, "gpu-booking")
AUTHORITY = new_authority(EPOCH)
SERVER = new_certificate(AUTHORITY, HOSTS, EPOCH)


def verify(authority: KeyPair, server: KeyPair, host: str, *, after: timedelta = timedelta()) -> None:
    """Verify as a strict TLS client does (RFC 5280)."""
    store = Store([x509.load_pem_x509_certificate(authority.certificate)])
    policy = PolicyBuilder().store(store).time(EPOCH + after)
    policy.build_server_verifier(x509.DNSName(host)).verify(
        x509.load_pem_x509_certificate(server.certificate), []
    )


@pytest.mark.parametrize(
    "host",
    [
        "gpu-booking-controller.gpu-booking.svc",
        "gpu-booking-controller.gpu-booking.svc.cluster.local",
    ],
)
def test_a_strict_client_trusts_the_certificate_under_the_services_names(host: str) -> None:
    verify(AUTHORITY, SERVER, host)


def test_the_certificate_is_valid_from_an_hour_ago_and_for_a_year() -> None:
    verify(AUTHORITY, SERVER, HOSTS[0], after=-timedelta(hours=1))
    verify(AUTHORITY, SERVER, HOSTS[0], after=timedelta(days=365))
    with pytest.raises(VerificationError):
        verify(AUTHORITY, SERVER, HOSTS[0], after=timedelta(days=366))


def test_the_certificate_is_not_trusted_under_another_name_or_authority() -> None:
    with pytest.raises(VerificationError):
        verify(AUTHORITY, SERVER, "example.org")
    with pytest.raises(VerificationError):
        verify(new_authority(EPOCH), SERVER, HOSTS[0])


def test_keys_are_not_shown() -> None:
    assert "PRIVATE" not in repr(SERVER)


def test_renewal_is_due_ninety_days_ahead() -> None:
    ahead = EPOCH + timedelta(days=275)
    assert not needs_renewal(SERVER.certificate, ahead)
    assert needs_renewal(SERVER.certificate, ahead + timedelta(seconds=1))
    assert needs_renewal(b"no certificate", EPOCH)


def test_an_authority_vouches_only_for_what_it_signed_and_only_for_those_names() -> None:
    assert vouches(AUTHORITY.certificate, SERVER.certificate, HOSTS)
    assert not vouches(AUTHORITY.certificate, SERVER.certificate, (*HOSTS, "127.0.0.1"))
    assert not vouches(new_authority(EPOCH).certificate, SERVER.certificate, HOSTS)
    assert not vouches(b"", SERVER.certificate, HOSTS)


def test_a_certificate_may_have_addresses_and_names() -> None:
    hosts = (*HOSTS, "127.0.0.1", "::1")
    assert vouches(AUTHORITY.certificate, new_certificate(AUTHORITY, hosts, EPOCH).certificate, hosts)


def test_a_pair_is_complete_when_the_key_belongs_to_the_certificate() -> None:
    assert is_whole(SERVER)
    assert not is_whole(KeyPair(SERVER.certificate, AUTHORITY.key))
    assert not is_whole(KeyPair(SERVER.certificate, b"no key"))
    assert not is_whole(KeyPair(b"", SERVER.key))


def test_nothing_is_signed_with_an_unreadable_certificate() -> None:
    with pytest.raises(UnreadableError, match="not a certificate in PEM"):
        new_certificate(KeyPair(b"x", AUTHORITY.key), HOSTS, EPOCH)
