"""Which pages may send us requests in the name of whoever is signed in."""

import pytest

from booking.server.web.login.addresses import is_same_origin

OURS = "gpus.example.org"
TUNNEL = "localhost:8080"


@pytest.mark.parametrize(
    ("origin", "site", "host", "is_ours"),
    [
        (f"https://{OURS}", None, OURS, True),
        (f"http://{OURS}", None, OURS, False),
        (f"https://{OURS}:8443", None, OURS, False),
        ("https://evil.example.org", None, OURS, False),
        ("null", None, OURS, False),
        (f"http://{TUNNEL}", None, TUNNEL, True),
        ("http://localhost:1", None, TUNNEL, False),
        (None, "same-origin", OURS, True),
        (None, "same-site", OURS, False),
        (None, None, OURS, False),
    ],
)
def test_only_our_own_pages_are_ours(
    origin: str | None, site: str | None, host: str, *, is_ours: bool
) -> None:
    assert is_same_origin(origin, site, host=host, public=f"https://{OURS}") == is_ours
