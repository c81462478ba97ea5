"""Stands in for a development cluster that gives parts their tokens and runs kubectl."""

import json
from pathlib import Path
from typing import Any


class FakeCluster:
    """Serves every kind, answers every other kubectl with a token, and records the commands."""

    def __init__(self, folder: Path) -> None:
        self.state = folder
        self.api_server = "https://192.0.2.1:6443"
        self.ca_file = folder / "ca.crt"
        self.kubeconfig = folder / "administrator.kubeconfig"
        self.words: list[tuple[str, ...]] = []
        self.given: list[dict[str, Any]] = []

    def kubectl(self, *words: str, given: str | None = None) -> str:
        self.words.append(words)
        if given is not None:
            self.given.append(json.loads(given))
        if words[0] == "get" and words[1].startswith("crd/"):
            return json.dumps({"status": {"conditions": [{"type": "Established", "status": "True"}]}})
        return "a-token\n"

    def service_account_token(
        self, namespace: str, name: str, seconds: int = 3600, *, node: str | None = None
    ) -> str:
        return f"token of {namespace}:{name} for {seconds} s on {node}"

    def kubeconfig_text(self, token: str | None = None, user: str = "administrator") -> str:
        return f"{user} with {token}"

    def program(self, name: str) -> Path:
        return self.state / name
