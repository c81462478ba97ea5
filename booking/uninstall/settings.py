"""Settings of the uninstaller, from the environment."""

from pathlib import Path
from typing import Annotated

import msgspec

from cluster import names
from cluster.process.logs import Level, Style


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
