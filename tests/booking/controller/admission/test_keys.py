"""The webhook's keys in their Secret, and when they are renewed."""

from datetime import timedelta

import pytest

from booking.controller.admission.certificate_authority import vouches
from booking.controller.admission.keys import KNOWN_AFTER, Keys, data_of, keys_in, renewed
from tests.fakes.objects import EPOCH

HOSTS = ("webhook.example", "127.0.0.1")
KEYS = renewed(None, HOSTS, EPOCH)


def trusts(keys: Keys, other: Keys) -> bool:
    """Whether a client that trusts these authorities trusts the other's certificate."""
    end = b"-----END CERTIFICATE-----\n"
    pems = [pem + end for pem in keys.authorities.split(end) if pem.strip()]
    return any(vouches(pem, other.server.certificate, HOSTS) for pem in pems)


def test_new_keys_trust_their_own_certificate() -> None:
    assert trusts(KEYS, KEYS)


def test_a_certificate_is_renewed_under_the_same_authority() -> None:
    later = renewed(KEYS, HOSTS, EPOCH + timedelta(days=276))
    assert later.authorities == KEYS.authorities
    assert later.server != KEYS.server
    assert trusts(KEYS, later)


def test_another_host_name_needs_another_certificate() -> None:
    later = renewed(KEYS, (*HOSTS, "another.example"), EPOCH)
    assert later.authorities == KEYS.authorities
    assert vouches(later.authorities, later.server.certificate, ["another.example"])


DUE = timedelta(days=3600)


def test_the_next_authority_is_trusted_before_it_signs_anything() -> None:
    announced = renewed(KEYS, HOSTS, EPOCH + DUE)
    assert announced.authorities.count(b"BEGIN CERTIFICATE") == 2
    assert trusts(KEYS, announced)
    assert announced.successor is not None


def test_the_next_authority_signs_only_once_every_client_knows_it() -> None:
    announced = renewed(KEYS, HOSTS, EPOCH + DUE)
    assert renewed(announced, HOSTS, EPOCH + DUE + KNOWN_AFTER - timedelta(seconds=1)) is announced


def test_when_the_next_authority_signs_certificates_of_both_are_trusted() -> None:
    announced = renewed(KEYS, HOSTS, EPOCH + DUE)
    later = renewed(announced, HOSTS, EPOCH + DUE + KNOWN_AFTER)
    assert later.successor is None
    assert not trusts(KEYS, later)
    assert trusts(announced, later)
    assert trusts(later, later)
    assert trusts(later, KEYS)
    assert renewed(later, HOSTS, EPOCH + DUE + timedelta(days=1)) is later


@pytest.mark.parametrize("value", [None, "", "?", "eA=="])
def test_when_the_next_authoritys_key_is_lost_another_authority_is_announced(value: str | None) -> None:
    announced = renewed(KEYS, HOSTS, EPOCH + DUE)
    damaged = {k: v for k, v in {**data_of(announced), "next.key": value}.items() if v is not None}
    again = renewed(keys_in(damaged), HOSTS, EPOCH + DUE + KNOWN_AFTER)
    assert again.successor not in (None, announced.successor)
    assert trusts(again, announced)


def test_an_expired_authority_is_replaced_at_once() -> None:
    later = renewed(KEYS, HOSTS, EPOCH + timedelta(days=3651))
    assert trusts(later, later)
    assert not trusts(KEYS, later)


@pytest.mark.parametrize("part", ["ca.crt", "ca.key"])
@pytest.mark.parametrize("value", [None, "", "?", "eA=="])
def test_without_a_complete_authority_all_keys_are_made_again(part: str, value: str | None) -> None:
    data = {key: text for key, text in {**data_of(KEYS), part: value}.items() if text is not None}
    later = renewed(keys_in(data), HOSTS, EPOCH)
    assert trusts(later, later)
    assert not trusts(KEYS, later)


@pytest.mark.parametrize("part", ["tls.crt", "tls.key"])
def test_a_broken_certificate_is_made_again(part: str) -> None:
    later = renewed(keys_in({**data_of(KEYS), part: "eA=="}), HOSTS, EPOCH)
    assert later.authorities == KEYS.authorities
    assert trusts(KEYS, later)
