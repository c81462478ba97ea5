"""Webhooks that a test serves on the host and has a real API server ask."""

import socket
from pathlib import Path
from typing import Any, Final

import yaml

from cluster import names

Json = dict[str, Any]

CONDITIONS: Final = Path(__file__).parents[2] / "charts" / "gpu-booking" / "files" / "match-conditions.yaml"


def configuration(url: str) -> Json:
    """As the chart makes it, but for the address."""
    webhook = {
        "name": f"pods.{names.DOMAIN}",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": url},
        "failurePolicy": "Fail",
        "matchConditions": yaml.safe_load(CONDITIONS.read_text()),
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        ],
        "sideEffects": "None",
        "timeoutSeconds": 3,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": names.WEBHOOK},
        "webhooks": [webhook],
    }


def address_towards(other: str) -> str:
    """Our own address on the way to another."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.connect((other, 9))
        address: str = way.getsockname()[0]
        return address
