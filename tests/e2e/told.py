"""The story of ``make run``, played by its own program, and what must have happened in it."""

import os
import subprocess
import sys

from devcluster.places import CHECKOUT

Played = subprocess.CompletedProcess[str]
VICTIMS = frozenset({"bob-3", "alice-1", "bob-2", "alice-2"})
"""Of the whole story, in whichever order: two pods that were taken away, two whose booking was over."""


def run(name: str, *options: str, **settings: str) -> Played:
    """Play it once on a cluster of this name; the program's end and what it printed."""
    return subprocess.run(
        [sys.executable, "-m", "devcluster.demo", "--name", name, "--once", *options],
        cwd=CHECKOUT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def whom(told: str, what: str) -> set[str]:
    """Who is told to have done something; once or again."""
    return {line.split()[2] for line in told.splitlines() if line.endswith(f" {what}")}


def check_story(played: Played) -> None:
    """Everything happened, in whatever order and however often it was told."""
    assert played.returncode == 0, played.stdout + played.stderr
    lines = played.stdout.splitlines()

    def told(who: str, what: str) -> bool:
        return any(f"s  {who:<12} {what}" in line for line in lines)

    for pod in ("bob-1", "bob-2", "bob-3", "bob-4", "bob-5", "bob-6", "alice-1", "alice-2"):
        assert told(pod, "is bound with"), pod
        assert told(pod, "sees inside: GPU-"), pod
    for pod in VICTIMS:
        assert told(pod, "comes back without a GPU"), pod
        assert told(pod, "runs on, and sees no GPU inside"), pod
    for pod in ("bob-3", "bob-2"):
        assert told(pod, "is told: "), pod
    for pod in ("bob-1", "bob-4", "bob-5", "bob-6"):
        assert not told(pod, "has to leave"), pod
    assert told("alice", "may start her next booking on ")
    assert told("bob", "keeps bob-1, bob-2, bob-4: untouched")
    assert any(line.startswith("REST API: http://") for line in lines)
    assert any(line.startswith("export KUBECONFIG=/") for line in lines)
    assert lines[-1] == "The cluster is gone."
