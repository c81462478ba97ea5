"""What an API server records of each account's requests: its audit log, as an administrator has it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cluster import names

REFUSED_BY: Final = "validation.policy.admission.k8s.io/validation_failure"
"""Kubernetes' annotation of what a policy has refused."""
OURS: Final = f"system:serviceaccount:{names.NAMESPACE}:"
"""How the user names of our accounts begin."""

_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "None", "users": ["admin", "system:apiserver", "system:kube-scheduler"]},
        {"level": "None", "userGroups": ["system:nodes", "system:serviceaccounts:kube-system"]},
        {"level": "Metadata"},
    ],
}


@dataclass(frozen=True)
class Call:
    """One request of somebody's."""

    user: str
    verb: str
    group: str
    resource: str
    """With its subresource: ``pods/binding``."""
    namespace: str
    name: str
    code: int
    policies: tuple[str, ...]
    """That have refused it."""
    path: str


class Trail:
    """The audit log of one cluster, in a folder that was there before it."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "audit.log"
        self._policy = folder / "audit-policy.json"
        self._policy.write_text(json.dumps(_POLICY))

    @property
    def arguments(self) -> tuple[str, ...]:
        """Of kube-apiserver."""
        return (f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}")

    def calls(self) -> Iterator[Call]:
        """Everything so far; a line that is being written is left for the next time."""
        if not self._log.exists():
            return
        for line in self._log.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                yield from _call_in(json.loads(line))

    def refusals(self) -> list[Call]:
        """Those that somebody had no right to."""
        return [call for call in self.calls() if call.code in {401, 403}]


def _call_in(event: dict[str, Any]) -> Iterator[Call]:
    about = event.get("objectRef")
    if about is None:
        return
    parts = [about.get("resource", ""), about.get("subresource", "")]
    failures = json.loads(event.get("annotations", {}).get(REFUSED_BY, "[]"))
    yield Call(
        user=event.get("impersonatedUser", event["user"]).get("username", ""),
        verb=event["verb"],
        group=about.get("apiGroup", ""),
        resource="/".join(filter(None, parts)),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        policies=tuple(one["policy"] for one in failures),
        path=event["requestURI"].partition("?")[0],
    )
