"""A client of a cluster's PID 1 (`devcluster.init`), through its unix socket."""

import json
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from devcluster.errors import ClusterError

TRIES: Final = 3
"""How often a request is sent at most; it is sent again only if PID 1 has read nothing of it."""


class Request(msgspec.Struct, frozen=True):
    """What a process was started with."""

    argv: list[str]
    log: str
    node: str | None
    restarted_always: bool = False
    """Whether it is restarted when it ends by itself."""
    env: dict[str, str] = {}


class Process(msgspec.Struct, frozen=True):
    """A process as PID 1 sees it: pid in the cluster; exited is None while it runs, and -N after signal N."""

    pid: int
    exited: int | None
    request: Request
    restarted: int = 0
    """How often it was restarted after it ended by itself, since it was last started on request."""


class _Processes(msgspec.Struct, frozen=True):
    processes: dict[str, Process]
    nodes: dict[str, int]


class Control:
    """A cluster's PID 1, reached through the socket at this path."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def host_pid(self) -> int:
        """The PID, on the host, of the cluster's first process; ClusterError if it does not answer."""
        with self._connect() as connection:
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", credentials)[0])

    def answers(self) -> bool:
        """Whether the cluster's first process accepts connections."""
        try:
            self.host_pid()
        except ClusterError:
            return False
        return True

    def start(
        self,
        name: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        log: Path,
        node: str | None,
        restarted_always: bool = False,
    ) -> Process:
        """Start a process under a name that no running process has.

        With `restarted_always` it is restarted a second after it has ended by itself, but not after
        `signal` was used to end it.
        """
        request = {
            "name": name,
            "argv": list(argv),
            "env": dict(env),
            "log": str(log),
            "node": node,
            "restarted_always": restarted_always,
        }
        return msgspec.convert(self._ask({"do": "start", **request}), Process)

    def start_again(self, name: str) -> Process:
        """Start the process of this name again, with the same command line."""
        return msgspec.convert(self._ask({"do": "again", "name": name}), Process)

    def signal(self, name: str, number: int) -> Process:
        """Send a signal, unless it has ended. After any but SIGSTOP and SIGCONT it is not restarted."""
        return msgspec.convert(self._ask({"do": "signal", "name": name, "signal": number}), Process)

    def make_node(self, name: str, script: str) -> None:
        """Make a node's mount namespace, prepared by a shell script."""
        self._ask({"do": "node", "name": name, "script": script})

    def reset_restarts(self) -> None:
        """Set the number of restarts of every process to 0."""
        self._ask({"do": "reset restarts"})

    def outlive(self) -> None:
        """Let the cluster outlive its owner from now on."""
        self._ask({"do": "outlive"})

    def processes(self) -> dict[str, Process]:
        """Everything that was ever started here, by name."""
        return self._list().processes

    def node_namespace(self, node: str) -> Path:
        """The file of a node's mount namespace, readable on the host."""
        return Path(f"/proc/{self.host_pid()}/fd/{self._list().nodes[node]}")

    def _list(self) -> _Processes:
        return msgspec.convert(self._ask({"do": "list"}), _Processes)

    def _exchange(self, request: bytes) -> bytes:
        """Send a line and return the line that answers it; a request that was not read is sent again.

        The first process serves one caller at a time, and waits a few seconds for each one's request: a
        caller that a busy machine delays finds the connection closed.
        """
        problem: OSError | None = None
        for _ in range(TRIES):
            with self._connect() as connection:
                try:
                    connection.sendall(request)
                    with connection.makefile("rb") as stream:
                        return stream.readline()
                except BrokenPipeError as error:
                    problem = error
                except OSError as error:
                    problem = error
                    break
        raise ClusterError(f"The cluster's first process does not answer: {problem}.") from problem

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(30)
        try:
            connection.connect(str(self._path))
        except OSError as error:
            connection.close()
            raise ClusterError(
                f"The cluster does not run: nobody answers at {self._path} ({error})."
            ) from error
        return connection

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        line = self._exchange(json.dumps(request).encode() + b"\n")
        if not line:
            raise ClusterError("The cluster's first process ended while it was asked for something.")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ClusterError(
                f"The cluster could not {request['do']} {request.get('name')}: {answer['error']}."
            )
        return answer
