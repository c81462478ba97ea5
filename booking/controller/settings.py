"""Settings of the booking server, the controller and the uninstaller, from the environment.

Variables are named ``GPU_BOOKING_PORT`` and so on. Durations are ISO 8601: ``P14D``, ``PT20S``.
"""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from booking.controller.hubs.hub import Hub
from booking.eviction.settings import WARNINGS, EndAction
from booking.policy.limits import Limits
from cluster import names
from cluster.decide.identity import DEFAULT_RULES, Rule
from cluster.process.logs import Level, Style

Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
_MANUAL = Limits()


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The controller's settings."""

    webhook_host: str = "0.0.0.0"
    """Where the API server reaches the webhook."""
    webhook_port: Port = 9443
    """Port of the webhook."""
    webhook_service: str = names.WEBHOOK_SERVICE
    """The Service by whose name the API server knows the webhook; the certificate names it."""
    probe_host: str = "0.0.0.0"
    """Where ``/livez``, ``/healthz``, ``/readyz`` and ``/metrics`` are served."""
    probe_port: Port = 9444
    """Port of the probes and metrics."""
    identity_rules: tuple[Rule, ...] = DEFAULT_RULES
    """Raw names to user ids, as JSON; the booking server needs the same."""
    trusted_creators: tuple[str, ...] = ()
    """User names whose pods carry their owner in the annotation or label of JupyterHub."""
    jupyterhub_users: tuple[str, ...] = ()
    """Raw names of JupyterHub's users, for labels alone; users of bookings are known without it."""
    hubs: tuple[Hub, ...] = ()
    """JupyterHubs that are told when an evicted notebook is back, as JSON: `[{"url":
    "http://hub.jupyter.svc:8081/hub/api", "token_file": "/path", "namespace": "jupyter"}]`. The token is a
    service's with the scope `proxy`; without a namespace a hub is told of notebooks everywhere."""
    unbooked_action: Literal["queue", "strip"] = "queue"
    """A pod without a booking for which no GPU is free: it waits (queue), or starts without a GPU (strip)."""
    unbooked_notebook_action: Literal["queue", "strip"] = "strip"
    """The same choice for pods of trusted creators."""
    queue_gate: bool = False
    """Whether a pod that waits does so behind a scheduling gate, which the controller takes off in its turn:
    kube-scheduler does not try it at every change then. Cluster autoscalers see few of these pods."""
    sharing_dialects: tuple[Literal["hami", "gpushare", "kai", "nvidia"], ...] = (
        "hami",
        "gpushare",
        "kai",
        "nvidia",
    )
    """Whose spellings of shares of a GPU are understood in new pods (docs/sharing.md)."""
    sharing_gpushare_unit: Literal["GiB", "MiB"] = "GiB"
    """The unit of `aliyun.com/gpu-mem`, as gpushare's device plugin had it."""
    sharing_default: Annotated[int, msgspec.Meta(ge=1, le=100)] = 25
    """Percent of a GPU's memory that a share has which names no amount (`nvidia.com/gpu.shared` alone)."""
    sharing_overuse: Literal["report", "evict"] = "report"
    """A pod without a booking that uses more memory of a GPU than its share: the node agent reports it, or it
    is evicted, too."""
    sharing_reservation_image: str = ""
    """Image of reservation pods, which open GPUs of nodes with another device plugin for shares: one that
    does nothing until it is ended. Empty: no GPU is opened."""
    sharing_reservation_pull_secrets: tuple[str, ...] = ()
    """Secrets of our namespace with which nodes pull that image."""
    sharing_runtime_class: str = ""
    """RuntimeClass that pods with shares get if they name none, while reservation pods are on: the one under
    which NVIDIA's runtime reads `NVIDIA_VISIBLE_DEVICES`."""
    policy_file: Path | None = None
    """The booking server's policy, of which `fair_shares` counts here; read again when it changes."""
    maia: bool = False
    """Whether MAIA's `terminate-at` on pods of trusted creators is honoured, and its tools are answered."""
    maia_host: str = "0.0.0.0"
    """Where MAIA's tools reach us, if `maia` is set: the former pod terminator's HTTP API."""
    maia_port: Port = 8080
    """Port of MAIA's API."""
    service_account: str = f"system:serviceaccount:{names.NAMESPACE}:{names.CONTROLLER}"
    """Our own name as the API server says it: pods that we create again keep their owner."""
    scheduler_name: str = names.SCHEDULER_NAME
    """``schedulerName`` that GPU pods get."""
    instance: str | None = None
    """Where we run, e.g. the pod's name: no two controllers that live share it. One that is killed and
    started again there leads at once; by default it waits until its Lease has run out."""
    notice_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0
    """Between the notice to a victim and its eviction."""
    longest_notice_seconds: Annotated[float, msgspec.Meta(ge=0)] = 600
    """A pod's own request for notice counts up to this."""
    longest_grace_seconds: Annotated[int, msgspec.Meta(ge=1)] = 120
    """A victim's own termination grace counts up to this."""
    restart_cost_seconds: Annotated[float, msgspec.Meta(ge=0)] = 60
    """What starting again costs a victim, besides its lost work: seconds of each of its GPUs."""
    budget_override_seconds: Annotated[float, msgspec.Meta(ge=0)] | Literal["never"] = 300
    """How long a booked pod waits for disruption budgets before it overrides them. `never`: it waits
    indefinitely, so anybody who may write a budget can keep GPUs from bookings."""
    end_action_without_controller: EndAction = "recreate-without-gpu"
    """What becomes of a bare pod whose booking is over: recreate-without-gpu, demote or delete."""
    end_action_with_controller: EndAction = "demote"
    """What becomes of a controller's pod then; its controller is what recreates it, with its GPUs."""
    warn_before: tuple[timedelta, ...] = WARNINGS
    """How long before its end the owner of a pod is warned."""
    webhook_certificates: Literal["own", "cert-manager"] = "own"
    """What makes the webhook's certificate: the controller itself, or cert-manager, in the same Secret."""
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
    """Where Leases and the webhook's Secret are."""
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


class UninstallSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The uninstaller's."""

    namespace: str = names.NAMESPACE
    """Where the release is."""
    scheduler_name: str = names.SCHEDULER_NAME
    """``schedulerName`` that pods with GPUs were given."""
    keep_bookings: bool = True
    """Whether the bookings stay, for a later installation."""
    timeout_seconds: Annotated[float, msgspec.Meta(ge=1)] = 270
    """How long pods may take that are leaving now, and our own."""
    kube_server: str | None = None
    """URL of the API server; by default the one of the cluster that this pod runs in."""
    kube_ca_file: Path | None = None
    """Certificate of the API server's authority; by default the ServiceAccount's."""
    kube_token_file: Path | None = None
    """The token that we show it, read again when it changes; by default the ServiceAccount's."""
    log_level: Level = "warning"
    """The lowest log level that is written next to the messages."""
    log_style: Style = "json"
    """One JSON object per line, or text for people."""
