"""The requests of one account to the API server, counted in the API server's own audit log."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from cluster import names


class _Object(msgspec.Struct, frozen=True):
    resource: str = ""


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    verb: str
    stage: str
    object_ref: _Object = _Object()


_LINE: Final = msgspec.json.Decoder(_Entry)


def service_account(name: str) -> str:
    """The API server's name for one of our ServiceAccounts."""
    return f"system:serviceaccount:{names.NAMESPACE}:{name}"


class AuditLog:
    """The log; each count begins where the last one ended."""

    def __init__(self, folder: Path, user: str) -> None:
        """Args: folder: for policy and log, exists before the cluster starts; user: whose requests count."""
        self._policy, self._log = folder / "policy.json", folder / "audit.log"
        self._read = 0
        rules = [{"level": "Metadata", "users": [user]}, {"level": "None"}]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
        self._policy.write_bytes(msgspec.json.encode({**policy, "rules": rules}))

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of kube-apiserver."""
        return (f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}")

    def calls(self) -> int:
        """How many requests were answered since the last count.

        Neither watches count nor writes of Leases: they go on, by time, whatever else is done.
        """
        with self._log.open("rb") as log:
            log.seek(self._read)
            text = log.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        return sum(_is_call(line) for line in whole.splitlines())


def _is_call(line: bytes) -> bool:
    entry = _LINE.decode(line)
    is_by_time = entry.verb == "watch" or entry.object_ref.resource == "leases"
    return entry.stage == "ResponseComplete" and not is_by_time


@contextmanager
def audited(user: str) -> Iterator[AuditLog]:
    """A log for a cluster that will be started."""
    with TemporaryDirectory() as folder:
        yield AuditLog(Path(folder), user)
