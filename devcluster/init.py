"""PID 1 of a cluster: starts processes on request, reaps every orphan, remembers how each ended.

It runs as a script inside the new namespaces (`init.py SOCKET PIPE`), with the standard library alone, so
that it starts at once. `devcluster.control` is its client: one JSON object per connection and direction, each
on one line. When it ends, the whole cluster ends, because the kernel then ends every process of the PID
namespace. It ends when its owner's end of the pipe is closed, unless a request made it outlive the owner.
"""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

_SECONDS = 5
_PAUSE = 1
"""Seconds after which a crashed process is restarted."""
_GOES_ON = (signal.SIGSTOP, signal.SIGCONT)
"""Signals that are not meant to end a process: if it ends after one of them, it has crashed by itself."""


class Init:
    """The processes of a cluster by name, and the mount namespaces of its nodes."""

    def __init__(self) -> None:
        self._processes: dict[str, dict[str, Any]] = {}
        self._nodes: dict[str, int] = {}
        self._crashed: list[str] = []
        self.outlives = False
        """Whether the cluster outlives its owner."""

    def restart_crashed(self) -> None:
        """Restart processes with `restarted_always` that ended by themselves and were not signalled since."""
        names, self._crashed = self._crashed, []
        for name in names:
            crashed = self._processes[name]
            if crashed["exited"] is not None and not crashed["signalled"]:
                self._start(crashed["request"])["restarted"] = crashed["restarted"] + 1

    def reap(self) -> None:
        """Reap the processes that have ended; remember the exit status of our own."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for process in self._processes.values():
                if process["pid"] == pid and process["exited"] is None:
                    process["exited"] = os.waitstatus_to_exitcode(status)
                    if process["request"].get("restarted_always") and not process["signalled"]:
                        self._crashed.append(process["request"]["name"])
                        signal.alarm(_PAUSE)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what one request asks for."""
        match request["do"]:
            case "start":
                return self._start(request)
            case "again":
                return self._start(self._processes[request["name"]]["request"])
            case "signal":
                process = self._processes[request["name"]]
                process["signalled"] |= request["signal"] not in _GOES_ON
                if process["exited"] is None:
                    os.kill(process["pid"], request["signal"])
                return process
            case "node":
                return self._make_node(request["name"], request["script"])
            case "reset restarts" | "outlive":
                return self._remember(request["do"])
            case "list":
                return {"processes": self._processes, "nodes": self._nodes}
        raise ValueError(f"unknown request {request['do']}")

    def _remember(self, order: str) -> dict[str, Any]:
        if order == "outlive":
            self.outlives = True
        else:
            for process in self._processes.values():
                process["restarted"] = 0
        return {}

    def _start(self, request: dict[str, Any]) -> dict[str, Any]:
        name, argv = request["name"], list(request["argv"])
        before = self._processes.get(name)
        if before and before["exited"] is None:
            raise ValueError(f"{name} runs already")
        if request["node"] is not None:
            # /proc/1 is this process: it keeps the node's mount namespace open.
            argv = ["nsenter", f"--mount=/proc/1/fd/{self._nodes[request['node']]}", "--", *argv]
        pid = os.posix_spawnp(
            argv[0],
            argv,
            request["env"],
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE],
        )
        self._processes[name] = {
            "pid": pid,
            "exited": None,
            "request": request,
            "signalled": False,
            "restarted": 0,
        }
        return self._processes[name]

    def _make_node(self, name: str, script: str) -> dict[str, Any]:
        """Run the script in a new mount namespace, and keep that namespace if the script succeeds."""
        with subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script + "\necho ready\nread _"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as shell:
            if shell.stdout and shell.stdout.readline() == "ready\n":
                self._nodes[name] = os.open(f"/proc/{shell.pid}/ns/mnt", os.O_RDONLY)
                return {"descriptor": self._nodes[name]}
            raise ValueError(f"cannot prepare {name}: {shell.stderr.read() if shell.stderr else ''}")


def _serve_one(init: Init, connection: socket.socket) -> None:
    """Answer one connection; an error in it harms only the client that opened it."""
    with connection, contextlib.suppress(OSError):
        connection.settimeout(_SECONDS)
        with connection.makefile("rb") as stream:
            line = stream.readline()
        if not line:
            return  # a client that only checked whether this process is there
        try:
            answer = init.answer(json.loads(line))
        except (OSError, ValueError, KeyError, TypeError) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        connection.sendall(json.dumps(answer).encode() + b"\n")


def _prepare() -> None:
    """Prepare the namespaces as a whole: an empty /run, and IP forwarding."""
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def serve(path: str, owner: int) -> None:
    """Answer requests at this unix socket until the owner's end of this pipe is closed.

    Args:
        path: of the socket.
        owner: file descriptor of the reading end; ignored once the cluster outlives its owner.
    """
    os.set_inheritable(owner, False)
    wake, woken = socket.socketpair()
    woken.setblocking(False)
    for number in (signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, lambda _signal, _frame: None)
    signal.set_wakeup_fd(woken.fileno())
    init = Init()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(64)
        while True:
            readable = [wake.fileno(), listener.fileno(), *([] if init.outlives else [owner])]
            ready, _, _ = select.select(readable, [], [])
            if owner in ready:
                return
            if wake.fileno() in ready:
                signals = wake.recv(4096)
                init.reap()
                if signal.SIGALRM in signals:
                    init.restart_crashed()
            if listener.fileno() in ready:
                _serve_one(init, listener.accept()[0])


if __name__ == "__main__":
    os.chdir("/")
    _prepare()
    serve(sys.argv[1], int(sys.argv[2]))
