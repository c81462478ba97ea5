"""The extender's settings, from the environment: ``GPU_BOOKING_PORT`` and so on."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from cluster import names
from cluster.process.logs import Level, Style

Placement = Literal["binpack", "spread", "topology", "booked-reserve"]
Mode = Literal["dedicated", "existing"]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that may differ between two installations."""

    mode: Mode = "dedicated"
    """Which kube-scheduler asks: one of our own next to us, or the cluster's existing one, by mutual TLS."""
    host: str = "127.0.0.1"
    """Where the verbs are served. Next to its own kube-scheduler nothing else may ask for a bind."""
    port: Port = 8880
    """Port of the verbs."""
    probe_host: str = "0.0.0.0"
    """Where ``/livez``, ``/healthz``, ``/readyz`` and ``/metrics`` are served to kubelet and Prometheus."""
    probe_port: Port = 8881
    """Port of the probes and metrics."""
    tls_certificate_file: Path | None = None
    """Mode `existing`: certificate of the verbs' server, in PEM, read again when it changes."""
    tls_key_file: Path | None = None
    """Mode `existing`: key of that certificate, in PEM."""
    tls_client_ca_file: Path | None = None
    """Mode `existing`: the authority that signs the certificates of allowed clients."""
    tls_client_names: tuple[str, ...] = ("system:kube-scheduler",)
    """Common names or DNS names of allowed clients; empty allows all certificates of that authority."""
    threads: Annotated[int, msgspec.Meta(ge=2, le=256)] = 192
    """Requests that are answered at one time; up to three quarters may be binds, which wait for others."""
    max_body_bytes: Annotated[int, msgspec.Meta(ge=1024)] = 8 * 2**20
    """Largest request: a pod and the names of all nodes."""
    book_claims: bool = False
    """Whether GPUs that claims give (DRA) can be booked, and pods leave for claims: from Kubernetes 1.37 on.
    Extender, controller, booking server and node agents need the same."""
    dra_driver: str = names.DRA_DRIVER
    """Name of the driver of claims; the node agents need the same."""
    namespace: str = names.NAMESPACE
    """Where the node agents' and the scheduler's Leases are."""
    without_agent: Literal["none", "labelled", "all"] = "none"
    """Which nodes have no node agent, so that the controller counts their GPUs and their kubelets' Leases say
    that they live: none, those labelled `gpu-booking.io/without-agent=true`, or all. Extender, controller and
    booking server need the same."""
    placement: Placement = "binpack"
    """Which of the nodes that fit is best, for pods that request no policy."""
    score_weight: Annotated[int, msgspec.Meta(ge=1, le=100)] = 10
    """Mode `dedicated`: the `weight` of the extender's entry in kube-scheduler's profile. Nodes that can
    no longer win against the best one are not named to it; with 1 all nodes that fit are."""
    bind_window: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8
    """How many pods may be on their way to a node before its kubelet has answered for one, at most: so many
    can be lost when its agent dies. A node starts with 1, and each answer widens it."""
    maia: bool = False
    """Whether MAIA's `terminate-at` on pods guarantees their GPUs; the controller needs the same."""
    restart_cost_seconds: Annotated[float, msgspec.Meta(ge=0)] = 60
    """What a restart costs a victim of kube-scheduler's preemption; the controller needs the same."""
    scheduler_name: str = names.SCHEDULER_NAME
    """``schedulerName`` of the pods whose waiting is explained."""
    leader_election: bool = True
    """Bind only while the kube-scheduler next to us leads; false for a single one without election."""
    leader_lease: str = names.SCHEDULER_LEASE
    """The Lease by which the kube-schedulers elect their leader."""
    leader_prefix: str | None = None
    """How the identity of the kube-scheduler next to us begins; by default the host's name and ``_``."""
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

    @property
    def kubelets(self) -> bool:
        """Whether the Leases of kubelets are followed: on some nodes no agent renews one."""
        return self.without_agent != "none"
