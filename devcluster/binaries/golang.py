"""Runs Go with settings that the user's own cannot disturb, and reads its output while it works."""

import os
import selectors
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final

from devcluster.binaries.errors import BuildError
from devcluster.binaries.failures import message
from devcluster.binaries.toolchain import Toolchain

HEARTBEAT: Final = 1.0
"""Seconds of silence that count as an empty line, so that a clock on the screen keeps running."""


def go_environment(toolchain: Toolchain, *, cgo: bool, inherited: Mapping[str, str]) -> dict[str, str]:
    """The environment of a Go run: proxies and caches are the user's, what changes the result is ours."""
    environment = dict(inherited)
    if toolchain.own:
        environment.pop("GOROOT", None)
    return environment | {
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOFLAGS": "-mod=readonly",
        "GOOS": "linux",
        "CGO_ENABLED": "1" if cgo else "0",
    }


class Go:
    """The go command in one folder of modules."""

    def __init__(self, toolchain: Toolchain, folder: Path, *, cgo: bool) -> None:
        self._go = str(toolchain.go)
        self._folder = folder
        self._environment = go_environment(toolchain, cgo=cgo, inherited=os.environ)

    def run(self, what: str, arguments: list[str], is_progress: Callable[[str], bool]) -> str:
        """Run it to its end. Returns its stdout.

        `is_progress` gets each line of stderr, and an empty line for each second of silence. It returns
        whether a line was mere progress; all others explain a failure.

        Raises:
            BuildError: it failed, or there is no such command.

        """
        lines: list[str] = []

        def keep(line: str) -> None:
            if not is_progress(line):
                lines.append(line)

        with subprocess.Popen(
            [self._go, *arguments],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                output = _listen(process, keep)
            except BaseException:
                process.terminate()
                raise
        if process.returncode != 0:
            raise BuildError(message(what, process.returncode, lines))
        return output.decode()


def _listen(process: subprocess.Popen[bytes], take: Callable[[str], None]) -> bytes:
    """Read both outputs of a process to their end. Returns stdout; stderr is passed on line by line."""
    output = bytearray()
    unfinished = b""
    for stream, data in _chunks([process.stdout, process.stderr]):
        if stream is process.stdout:
            output += data
            continue
        *lines, unfinished = (unfinished + data).split(b"\n")
        for line in lines or ([] if data else [b""]):
            take(line.decode(errors="replace"))
    if unfinished:
        take(unfinished.decode(errors="replace"))
    return bytes(output)


def _chunks(streams: list[IO[bytes] | None]) -> Iterator[tuple[IO[bytes] | None, bytes]]:
    """What comes out of several pipes, in order of arrival; (None, empty) for every second of silence."""
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ, stream)
        while selector.get_map():
            ready = selector.select(HEARTBEAT)
            if not ready:
                yield None, b""
            for found, _ in ready:
                data = os.read(found.fd, 65536)
                if data:
                    yield found.data, data
                else:
                    selector.unregister(found.fileobj)
