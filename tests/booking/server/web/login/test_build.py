"""From the settings to the login: settings that do not fit together are refused when the server starts."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from booking.server.settings import ServerSettings
from booking.server.web.login.build import login_context, provider_of
from booking.server.web.login.oidc import Oidc
from booking.server.web.login.provider import Provider
from booking.server.web.login.session_auth import LoginContext
from booking.server.web.login.sessions import Login
from cluster import names
from cluster.decide.identity import DEFAULT_RULES
from cluster.kube.token_review import Subject
from cluster.process.settings import SettingsError
from tests.booking.server.web.served import Served

OIDC = {
    "oidc_issuer": "https://login.example.org/realms/site",
    "oidc_client_id": "gpu-booking-page",
    "public_url": "https://gpus.example.org/",
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.store.close()


def context(served: Served, settings: ServerSettings) -> LoginContext:
    oidc = provider_of(settings)
    provider = Provider(oidc, served.clock) if oidc else None
    return login_context(
        settings,
        served.store,
        served.clock,
        bearers=served.authenticator,
        roles=served.roles,
        rules=DEFAULT_RULES,
        provider=provider,
    )


def test_without_an_issuer_there_is_no_provider(served: Served) -> None:
    assert provider_of(ServerSettings()) is None
    made = context(served, ServerSettings())
    assert (made.oidc, made.id_tokens, made.public) == (None, None, None)


def test_every_setting_of_the_provider_is_used(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {
        **OIDC,
        "oidc_client_secret_file": tmp_path / "secret",
        "oidc_scopes": ("openid", "groups"),
        "oidc_audiences": ("kubectl",),
        "oidc_username_claim": "preferred_username",
        "oidc_groups_claim": "roles",
        "oidc_username_prefix": "oidc:",
        "oidc_groups_prefix": "group:",
        "oidc_ca_file": tmp_path / "ca.crt",
    }
    made = provider_of(msgspec.structs.replace(ServerSettings(), **chosen))
    assert made is not None
    assert made == Oidc(
        issuer=OIDC["oidc_issuer"],
        client_id=OIDC["oidc_client_id"],
        secret_file=tmp_path / "secret",
        scopes=("openid", "groups"),
        audiences=("kubectl",),
        username_claim="preferred_username",
        groups_claim="roles",
        username_prefix="oidc:",
        groups_prefix="group:",
        ca_file=tmp_path / "ca.crt",
    )
    assert {name for name in ServerSettings.__struct_fields__ if name.startswith("oidc_")} <= set(chosen)


@pytest.mark.parametrize("missing", ["oidc_client_id", "public_url"])
def test_an_issuer_needs_the_settings_that_belong_to_it(missing: str) -> None:
    settings = msgspec.structs.replace(ServerSettings(), **{**OIDC, missing: None})
    with pytest.raises(SettingsError, match=f"needs {names.setting(missing)}, too"):
        provider_of(settings)


@pytest.mark.parametrize("name", ["oidc_issuer", "public_url"])
@pytest.mark.parametrize(
    "url",
    ["http://login.example.org", "login.example.org", "ftp://login.example.org", "https://", "https://["],
)
def test_an_address_without_tls_is_refused(name: str, url: str) -> None:
    settings = msgspec.structs.replace(ServerSettings(), **{**OIDC, name: url})
    with pytest.raises(SettingsError, match=f"{names.setting(name)} is .* must begin with https://"):
        provider_of(settings)


def test_a_loopback_address_needs_no_tls() -> None:
    here = {"oidc_issuer": "http://127.0.0.1:9000", "public_url": "http://localhost:8080"}
    assert provider_of(msgspec.structs.replace(ServerSettings(), **{**OIDC, **here})) is not None


def test_the_public_address_has_no_slash_at_its_end(served: Served) -> None:
    made = context(served, msgspec.structs.replace(ServerSettings(), **OIDC))
    assert made.public == "https://gpus.example.org"
    assert made.oidc is not None
    assert made.id_tokens is not None


def test_sessions_last_as_long_as_the_settings_say(served: Served) -> None:
    settings = msgspec.structs.replace(
        ServerSettings(), session_idle_seconds=120, session_longest_seconds=180
    )
    sessions = context(served, settings).sessions
    cookie = sessions.open(Login("alice", "kubernetes", "alice", Subject("alice")))
    served.clock.advance(119)
    assert sessions.find(cookie) is not None
    served.clock.advance(60)
    assert sessions.find(cookie) is not None
    served.clock.advance(1)
    assert sessions.find(cookie) is None

    idle = sessions.open(Login("alice", "kubernetes", "alice", Subject("alice")))
    served.clock.advance(120)
    assert sessions.find(idle) is None
