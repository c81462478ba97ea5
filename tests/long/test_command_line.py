"""The command line as a plugin of kubectl, with nothing but a user's kubeconfig."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devcluster.cluster import Cluster
from devcluster.product import Parts
from tests.e2e.persons import A100, Person
from tests.e2e.playground import Playground

pytestmark = pytest.mark.e2e


class Shell:
    """Somebody's, with kubectl and its plugins on the PATH."""

    def __init__(self, cluster: Cluster, kubeconfig: Path) -> None:
        kubectl = cluster.program("kubectl").parent
        installed = Path(sys.executable).parent
        self._environment = {
            "PATH": os.pathsep.join([str(kubectl), str(installed), os.environ["PATH"]]),
            "HOME": str(kubeconfig.parent),
            "KUBECONFIG": str(kubeconfig),
        }

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """One command, whatever comes of it."""
        return subprocess.run(
            words, env=self._environment, capture_output=True, text=True, check=False, timeout=120
        )

    def says(self, *words: str) -> str:
        """What a command prints that succeeds."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def shell(cluster: Cluster, parts: Parts, alice: Person) -> Shell:
    assert alice
    return Shell(cluster, parts.people.kubeconfig("alice"))


def test_the_server_is_found_and_the_user_is_identified_by_the_kubeconfig(
    shell: Shell, playground: Playground
) -> None:
    output = shell.says("kubectl", "gpu", "book", A100, "--for", "2h", "-o", "name").strip()
    identifier = output.removeprefix("booking/")
    assert identifier in playground.kubectl("get", "bookings", "--output", "name")
    row = shell.says("kubectl", "gpu", "bookings").splitlines()[1]
    assert row.split()[:4] == [identifier, A100, "1", "active"]
    offered = shell.says("kubectl", "__complete", "gpu", "release", "")
    assert identifier in offered
    released = shell.says("kubectl", "gpu", "release", identifier)
    assert released.startswith(f"Released {identifier}.\nIts bare pods end now and come back without a GPU.")


def test_a_user_without_the_right_is_refused_with_a_message(shell: Shell) -> None:
    done = shell.run("kubectl", "gpu", "admin", "audit")
    assert done.returncode == 1
    assert "administrator" in done.stderr.lower()
    assert "Traceback" not in done.stderr
