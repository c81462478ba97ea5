"""The configurations of kube-scheduler that ask our extender, as an administrator writes them."""

from pathlib import Path
from typing import Any, Final

import yaml

from cluster import names
from devcluster.product import scheduler_profile

_FOLDER: Final = f"/etc/kubernetes/{names.PRODUCT}"


def dedicated() -> str:
    """For our own scheduler: what the chart's ConfigMap contains."""
    made = scheduler_profile.configuration(
        kubeconfig=Path("scheduler.conf"), extender_url="http://127.0.0.1:8880"
    )
    made["clientConnection"].pop("kubeconfig")
    return _yaml(made)


def existing() -> str:
    """What is added to the configuration of the cluster's own scheduler."""
    server = names.host_of(names.EXTENDER)
    files = {
        "caFile": f"{_FOLDER}/ca.crt",
        "certFile": f"{_FOLDER}/scheduler.crt",
        "keyFile": f"{_FOLDER}/scheduler.key",
    }
    url = "https://10.96.0.80:8880"
    return _yaml(scheduler_profile.existing(extender_url=url, server_name=server, files=files))


def _yaml(document: dict[str, Any]) -> str:
    return f"```yaml\n{yaml.safe_dump(document, sort_keys=False)}```\n"
