"""Kubeconfig files: JSON, which is YAML, with the authority's certificate inside."""

import base64
import json
from pathlib import Path


def text(*, server: str, authority: Path, token: str, user: str) -> str:
    """A kubeconfig with one context; nothing in it refers to another file."""
    certificate = base64.b64encode(authority.read_bytes()).decode()
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "devcluster",
                    "cluster": {"server": server, "certificate-authority-data": certificate},
                }
            ],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "devcluster", "context": {"cluster": "devcluster", "user": user}}],
            "current-context": "devcluster",
        },
        indent=2,
    )


def write(path: Path, content: str) -> Path:
    """Write a kubeconfig that only its owner can read; it holds a token."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(content)
    return path
