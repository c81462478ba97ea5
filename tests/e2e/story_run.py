"""The story of ``make run``, played by its own program, and what must have happened in it."""

import os
import subprocess
import sys
from collections.abc import Callable

from devcluster.paths import CHECKOUT

CHECK_EVERY = 0.5
"""Seconds between two checks whether it is to end."""
TAIL = 6000
"""Characters of the story's end."""
Played = subprocess.CompletedProcess[str]
VICTIMS = frozenset({"bob-3", "alice-1", "bob-2", "alice-2"})
"""Of the whole story, in whichever order: two pods that were taken away, two whose booking was over."""


def never() -> bool:
    """It ends by itself."""
    return False


def run(name: str, *options: str, until: Callable[[], bool] = never, **settings: str) -> Played:
    """Play it once on a cluster of this name; the program's end and what it printed.

    Args:
        name: of the cluster.
        options: more of the program.
        until: ends it before its time.
        settings: environment.
    """
    command = [sys.executable, "-m", "devcluster.demo", "--name", name, "--once", *options]
    with subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env={**os.environ, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        while True:
            try:
                output, complained = program.communicate(timeout=CHECK_EVERY)
            except subprocess.TimeoutExpired:
                if until():
                    program.terminate()
            else:
                return Played(command, program.returncode, output, complained)


def pods_that(output: str, what: str) -> set[str]:
    """The pods that did something by the story's output, once or more often."""
    return {line.split()[2] for line in output.splitlines() if line.endswith(f" {what}")}


def check_story(played: Played) -> None:
    """Everything happened, in whatever order and however often it was printed."""
    # What has failed first, then how far it came.
    assert played.returncode == 0, f"{played.stderr.strip()}\n{played.stdout[-TAIL:]}"
    lines = played.stdout.splitlines()

    def printed(who: str, what: str) -> bool:
        return any(f"s  {who:<12} {what}" in line for line in lines)

    for pod in ("bob-1", "bob-2", "bob-3", "bob-4", "bob-5", "bob-6", "alice-1", "alice-2"):
        assert printed(pod, "is bound with"), pod
        assert printed(pod, "sees inside: GPU-"), pod
    for pod in VICTIMS:
        assert printed(pod, "comes back without a GPU"), pod
        assert printed(pod, "runs on, and sees no GPU inside"), pod
    for pod in ("bob-3", "bob-2"):
        assert printed(pod, "is notified: "), pod
    for pod in ("bob-1", "bob-4", "bob-5", "bob-6"):
        assert not printed(pod, "has to leave"), pod
    for pod in ("bob-part-1", "bob-part-2"):
        assert printed(pod, "is told inside that "), pod
    assert printed("alice-3", "sees inside: GPU-")
    assert printed("alice", "may start her next booking on ")
    assert printed("bob", "keeps bob-1, bob-2, bob-4: untouched")
    assert not [line for line in lines if line.startswith(("REST API:", "export KUBECONFIG="))], "it is gone"
    assert lines[-1] == "The cluster is gone."
