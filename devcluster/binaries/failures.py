"""Turns what Go prints when it fails into what a person can do about it."""

import re
from collections.abc import Sequence
from typing import Final

LINES_SHOWN: Final = 12
ADVICE: Final = {
    r"pkg-config|libseccomp|seccomp\.h|C compiler|\"gcc\": executable file not found": (
        "runc needs a C compiler, pkg-config and libseccomp's headers: `python3 -m devcluster.hostpackages`"
        " installs them on Debian and Ubuntu."
    ),
    r"no such host|dial tcp|i/o timeout|connection refused|TLS handshake|is unreachable|GOPROXY=off": (
        "The modules could not be fetched: the first build needs the network (or a GOPROXY that has them);"
        " once built, none is needed."
    ),
    r"no space left on device": (
        "The disk is full: Go's caches need about 9 GB while Kubernetes is built (`go clean -cache` and"
        " `go clean -modcache` free them again), the result half a GB."
    ),
    r"signal: killed|cannot allocate memory|out of memory": (
        "Memory ran out: linking Kubernetes takes 3.5 GB."
    ),
    r"updates to go\.mod needed|missing go\.sum entry|checksum mismatch": (
        "The pinned modules do not agree with each other: restore go.mod and go.sum, or run `go mod tidy`"
        " there after a change of version."
    ),
}
"""A pattern of Go's output -> what a person can do about it."""


def advice(output: str) -> str:
    """What to do about a failed build, as far as its output shows; may be empty."""
    return " ".join(message for pattern, message in ADVICE.items() if re.search(pattern, output))


def message(what: str, status: int, lines: Sequence[str]) -> str:
    """The full report of a failed build: what, how it ended, what to do, and the end of Go's output."""
    unique_lines = list(dict.fromkeys(line for line in lines if line))
    todo = advice("\n".join(unique_lines))
    tail = "\n".join(f"    {line}" for line in unique_lines[-LINES_SHOWN:])
    return f"{what} failed with exit status {status}.{f' {todo}' if todo else ''} Go said:\n{tail}"
