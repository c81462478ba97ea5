"""Settings of the booking server, the controller and the uninstaller, from the environment.

Variables are named ``GPU_BOOKING_PORT`` and so on. Durations are ISO 8601: ``P14D``, ``PT20S``.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from booking.durations import iso
from booking.eviction.settings import EndAction
from booking.policy.limits import Limits
from cluster import names
from cluster.decide.identity import DEFAULT_RULES, Rule
from cluster.process.logs import Level, Style

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
_MANUAL = Limits()


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The booking server's settings."""

    host: str = "0.0.0.0"
    """Where the REST API is served."""
    port: Port = 8080
    """Port of the REST API."""
    probe_host: str = "0.0.0.0"
    """Where ``/livez``, ``/healthz``, ``/readyz`` and ``/metrics`` are served."""
    probe_port: Port = 8081
    """Port of the probes and metrics."""
    database: str = f"sqlite:///{names.DATABASE_FILE}"
    """URL of the booking database: ``sqlite:///`` and the path of its file, or
    ``postgresql://user@host:port/name?password_file=PATH``."""
    audiences: tuple[str, ...] = (names.AUDIENCE,)
    """Audiences of the tokens that are accepted."""
    identity_rules: tuple[Rule, ...] = DEFAULT_RULES
    """Raw names to user ids, as JSON; the controller needs the same."""
    public_url: str | None = None
    """URL by which people reach the page, `https://` and a host; needed for OIDC."""
    oidc_issuer: str | None = None
    """URL of the OIDC provider by which people sign in; without one they show a Kubernetes token."""
    oidc_client_id: str | None = None
    """Our client id at the provider; ID tokens for it are taken in the header `Authorization`, too."""
    oidc_client_secret_file: Path | None = None
    """The client's secret, read again each time; without one we are a public client."""
    oidc_scopes: tuple[str, ...] = ("openid", "profile", "email")
    """What the provider is asked for."""
    oidc_audiences: tuple[str, ...] = ()
    """Other clients of the provider whose ID tokens are taken, e.g. that of kubectl."""
    oidc_username_claim: str = "sub"
    """Claim with the raw name, source `oidc` of the identity rules; the same as the API server's."""
    oidc_groups_claim: str = "groups"
    """Claim with the groups; the same as the API server's."""
    oidc_username_prefix: str = ""
    """What the API server puts before those names: roles are asked for with it."""
    oidc_groups_prefix: str = ""
    """What the API server puts before those groups."""
    oidc_ca_file: Path | None = None
    """Certificate of the provider's authority; by default the system's."""
    session_idle_seconds: Annotated[float, msgspec.Meta(ge=60)] = 2 * 3600
    """Without a request people are signed out after this."""
    session_longest_seconds: Annotated[float, msgspec.Meta(ge=60)] = 12 * 3600
    """People are signed out after this even if they send requests."""
    maia_token_file: Path | None = None
    """What MAIA's webhook must show, read again each time; without one MAIA's addresses answer 403."""
    requests_per_second: Annotated[float, msgspec.Meta(gt=0)] = 20
    """Requests of one user that are answered, each second, for as long as they like; of all who ask from one
    address and are not signed in as many."""
    request_burst: Annotated[int, msgspec.Meta(ge=1)] = 200
    """Requests of one user, or from one such address, that are answered at once, after a rest."""
    trusted_proxies: tuple[str, ...] = ()
    """Networks of the proxies before us, e.g. `10.244.0.0/16`: what they say in `X-Forwarded-For` counts.
    Nobody else's word does; without one all people behind a proxy have its address."""
    policy_file: Path | None = None
    """The policy, YAML; read again when it changes. Without one the manual's five rules hold."""
    cooldown: str = iso(_MANUAL.cooldown)
    """Between the end of somebody's last booking and the start of the next, where there is no policy file."""
    shortest_booking: str = iso(_MANUAL.shortest)
    """The shortest booking, where there is no policy file."""
    longest_booking: str = iso(_MANUAL.longest)
    """The longest booking, where there is no policy file."""
    keep_nodes_seconds: Annotated[float, msgspec.Meta(ge=0)] | Literal["never"] = 86400
    """A node is kept from the Cluster Autoscaler from so long before a booking that needs it starts, until no
    booking needs it. `never`: no node is."""
    maia: bool = False
    """Whether MAIA's `terminate-at` on pods guarantees their GPUs; the controller needs the same."""
    end_action_without_controller: EndAction = "recreate-without-gpu"
    """What happens to a bare pod whose booking is over, as people read it; the controller needs the same."""
    end_action_with_controller: EndAction = "demote"
    """What happens to a controller's pod whose booking is over; the controller needs the same."""
    sharing_overuse: Literal["report", "evict"] = "report"
    """Whether pods without a booking that use more of a GPU than their share are evicted, as people read it;
    the controller needs the same."""
    restart_cost_seconds: Annotated[float, msgspec.Meta(ge=0)] = 60
    """What starting again costs a victim, for who would leave first; the controller needs the same."""
    without_agent: Literal["none", "labelled", "all"] = "none"
    """Which nodes have no node agent, so that the controller counts their GPUs and their kubelets' Leases say
    that they live: none, those labelled `gpu-booking.io/without-agent=true`, or all. Extender, controller and
    booking server need the same."""
    book_claims: bool = False
    """Whether GPUs that claims give (DRA) can be booked, and pods leave for claims: from Kubernetes 1.37 on.
    Extender, controller, booking server and node agents need the same."""
    dra_driver: str = names.DRA_DRIVER
    """Name of the driver of claims; the node agents need the same."""
    namespace: str = names.NAMESPACE
    """Where the mirror's Lease is."""
    kube_server: str | None = None
    """URL of the API server; by default the one of the cluster that this pod runs in."""
    kube_ca_file: Path | None = None
    """Certificate of the API server's authority; by default the ServiceAccount's."""
    kube_token_file: Path | None = None
    """The token that we show it, read again when it changes; by default the ServiceAccount's."""
    log_level: Level = "info"
    """The least important lines that are written."""
    log_style: Style = "json"
    """One JSON object per line, or text for people."""
