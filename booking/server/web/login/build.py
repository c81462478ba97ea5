"""Builds the login from the settings: provider, sessions, and checks that the settings fit together."""

from collections.abc import Sequence
from datetime import timedelta

from booking.server.settings import ServerSettings
from booking.server.store import Store
from booking.server.web.authentication import Authenticator
from booking.server.web.login.addresses import is_trusted
from booking.server.web.login.cookies import Cookies
from booking.server.web.login.id_tokens import IdTokens
from booking.server.web.login.oidc import Oidc
from booking.server.web.login.provider import Provider
from booking.server.web.login.session_auth import LoginContext
from booking.server.web.login.sessions import Sessions
from booking.server.web.roles import Roles
from cluster import names
from cluster.decide.identity import Rule
from cluster.process.clock import Clock
from cluster.process.settings import SettingsError


def provider_of(settings: ServerSettings) -> Oidc | None:
    """The configured OIDC provider.

    Raises:
        SettingsError: its settings are incomplete, or it cannot be trusted.
    """
    for field, url in (("oidc_issuer", settings.oidc_issuer), ("public_url", settings.public_url)):
        if url is not None and not is_trusted(url):
            raise SettingsError(
                f"The setting {names.setting(field)} is {url!r}: it must begin with https://."
            )
    if settings.oidc_issuer is None:
        return None
    for field in ("oidc_client_id", "public_url"):
        if not getattr(settings, field):
            raise SettingsError(
                f"The setting {names.setting('oidc_issuer')} needs {names.setting(field)}, too."
            )
    return Oidc(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id or "",
        secret_file=settings.oidc_client_secret_file,
        scopes=settings.oidc_scopes,
        audiences=settings.oidc_audiences,
        username_claim=settings.oidc_username_claim,
        groups_claim=settings.oidc_groups_claim,
        username_prefix=settings.oidc_username_prefix,
        groups_prefix=settings.oidc_groups_prefix,
        ca_file=settings.oidc_ca_file,
    )


def login_context(
    settings: ServerSettings,
    store: Store,
    clock: Clock,
    *,
    bearers: Authenticator,
    roles: Roles,
    rules: Sequence[Rule],
    provider: Provider | None,
) -> LoginContext:
    """Build the dependencies of the login from the settings.

    Raises:
        SettingsError: as for ``provider_of``.
    """
    oidc = provider_of(settings)
    public = settings.public_url.rstrip("/") if settings.public_url else None
    return LoginContext(
        bearers=bearers,
        sessions=Sessions(
            store,
            clock,
            idle=timedelta(seconds=settings.session_idle_seconds),
            longest=timedelta(seconds=settings.session_longest_seconds),
        ),
        cookies=Cookies(public),
        roles=roles,
        rules=rules,
        public=public,
        oidc=oidc,
        id_tokens=IdTokens(provider, oidc, clock) if provider and oidc else None,
    )
