"""Running a command of the host to its end, with a clear error if it fails."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.errors import ClusterError

# Commands that a cluster runs besides its own binaries -> the Debian packages that have them.
NEEDED = {
    "ip": "iproute2",
    "nft": "nftables",
    "openssl": "openssl",
    "mount": "mount",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setsid": "util-linux",
}


def missing() -> dict[str, str]:
    """Commands that this machine lacks, with the Debian package of each."""
    return {command: package for command, package in NEEDED.items() if shutil.which(command) is None}


def output(
    argv: Sequence[str | Path], *, given: str | None = None, env: Mapping[str, str] | None = None
) -> str:
    """Run a command. Returns its standard output; ClusterError with the command's own words if it fails."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(words, input=given, env=env, text=True, capture_output=True, check=False)
    except OSError as error:
        raise ClusterError(f"Cannot run {words[0]}: {error.strerror}.") from error
    if done.returncode != 0:
        reason = done.stderr.strip() or done.stdout.strip() or "it printed nothing"
        raise ClusterError(f"`{' '.join(words)}` failed with {done.returncode}: {reason}")
    return done.stdout
