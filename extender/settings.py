"""The extender's settings, from the environment: ``GPU_BOOKING_PORT`` and so on."""

from pathlib import Path
from typing import Annotated

import msgspec

from cluster import names
from cluster.runtime.logs import Level, Style

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that may differ between two installations."""

    host: str = "127.0.0.1"
    """Where the verbs are served: beside its kube-scheduler, nobody else may ask for a bind."""
    port: Port = 8880
    """Port of the verbs."""
    probe_host: str = "0.0.0.0"
    """Where ``/healthz``, ``/readyz`` and ``/metrics`` are served to the kubelet and Prometheus."""
    probe_port: Port = 8881
    """Port of the probes and metrics."""
    threads: Annotated[int, msgspec.Meta(ge=2, le=256)] = 16
    """Requests that are answered at one time; a bind takes one while the API server works."""
    max_body_bytes: Annotated[int, msgspec.Meta(ge=1024)] = 16 * 2**20
    """Largest request: a pod and the names of all nodes."""
    namespace: str = names.NAMESPACE
    """Where the node agents' Leases are."""
    scheduler_name: str = names.SCHEDULER_NAME
    """``schedulerName`` of the pods whose waiting is explained."""
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
