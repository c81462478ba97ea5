"""Every command of the documents is typed on a real cluster, as it is written there.

Only what differs from reader to reader is replaced: the cluster's name, the address that the story prints,
and what a document writes in capitals or with dots. ``make run`` and ``make test`` are not typed here.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest
from click.testing import CliRunner

from booking.cli.__main__ import gpu
from cluster import names
from cluster.process.clock import SystemClock
from devcluster.cluster import Cluster
from devcluster.demo.access import administrator
from devcluster.demo.rest import Rest
from devcluster.fakenvml import default_gpus
from devcluster.product import Parts
from devcluster.spec import ClusterSpec, NodeSpec
from tests.architecture import commands
from tests.architecture.checkout import ROOT
from tests.clusters import own
from tests.laws.live import LiveWatch, checkpoints_of

pytestmark = pytest.mark.e2e

BOOKING_BY_REST = "URL="
"""How the block of docs/rest.md begins that books."""
OF_RELEASES = {command for heading in commands.LIFECYCLE for command in commands.lifecycle(heading)}
"""Typed in tests/long/installed/test_lifecycle.py, since they end with nothing of ours."""
COMMANDS = [
    command
    for name in commands.DOCUMENTS
    if name not in commands.PLAYED
    for command in commands.all_in(ROOT / name)
    if command not in OF_RELEASES
]
KUBECTL = sorted(
    {command for command in COMMANDS if re.match(r"kubectl (?!gpu\b|inspect\b)", command)},
    key=lambda c: (" delete " in c, c),
)
PLUGIN = sorted({command for command in COMMANDS if re.match(r"kubectl gpu\b", command)})
"""What is typed with a server behind it in tests/booking/cli."""
HELM = sorted({command for command in COMMANDS if re.match(r"helm .*charts/", command)})
ELSEWHERE = re.compile(
    r"make |python -m |export KUBECONFIG=\.\.\.$|nvidia-modprobe |\.venv/bin/python -m devcluster$"
    r"|pip install |helm \w+( --install)?$|kubectl inspect gpushare$"
)
"""Typed by test_commands.py and test_story.py, or what a command prints, a tool of NVIDIA's driver, a wheel's
installation, words of a sentence about Helm, or a plugin of gpushare's."""
VERB = re.compile(r"kubectl (\S+|delete \w+)$")
"""``kubectl apply`` or ``kubectl delete node`` in a sentence is a verb: kubectl is asked what it does."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    nodes = tuple(NodeSpec(name=f"node-{letter}", gpus=default_gpus(n)) for n, letter in enumerate("ab"))
    with Cluster.start(ClusterSpec(name=own("documents"), nodes=nodes)) as started:
        yield started


@pytest.fixture(scope="module")
def installed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What Helm says to the documented installation; our parts are deployed over it."""
    home = str(tmp_path_factory.mktemp("helm"))
    path = {"PATH": f"{cluster.program('helm').parent}:{os.environ['PATH']}", "HOME": home}
    return [typed(command, KUBECONFIG=str(cluster.kubeconfig), **path) for command in HELM]


@pytest.fixture(scope="module")
def parts(cluster: Cluster, installed: list[str]) -> Parts:
    assert installed
    deployed = Parts(cluster)
    deployed.deploy()
    return deployed


@pytest.fixture
def laws(cluster: Cluster, parts: Parts) -> Iterator[LiveWatch]:
    """Watched, but not while ``kubectl delete bookings --all`` is typed: that is a person's to do."""
    assert parts
    with LiveWatch(administrator(cluster), SystemClock(), checkpoints_of(cluster)) as watch:
        yield watch
        watch.finish()


@pytest.fixture(scope="module")
def block() -> list[str]:
    """The commands of docs/rest.md."""
    text = (ROOT / "docs" / "rest.md").read_text()
    (found,) = (lines for lines in commands.blocks_in(text) if lines[0].startswith(BOOKING_BY_REST))
    return found


def typed(script: str, **environment: str) -> str:
    """What a shell in the checkout prints; it must not fail."""
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", script],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout


def of_cluster(command: str, name: str) -> str:
    """A command for this cluster, with this interpreter."""
    python = f"{sys.executable} -m devcluster kubectl --name {name}"
    command = command.replace(".venv/bin/python -m devcluster kubectl", python)
    return re.sub(r"^kubectl\b", python, command)


def booking(answer: str) -> dict[str, object]:
    """One booking as the server says it; a problem has no id."""
    body = json.loads(answer)
    assert "type" not in body, body
    return dict(body)


def test_helm_installs_as_it_is_documented(installed: list[str]) -> None:
    assert all("STATUS: deployed" in output for output in installed)


def test_bookings_are_made_shown_given_back_and_cancelled_as_the_document_says(
    cluster: Cluster, parts: Parts, block: list[str], laws: LiveWatch
) -> None:
    assignments = [line for line in block if not line.startswith("curl ")]
    given = re.match(r"URL=http://[\d.]+(/\S*)$", assignments[0])
    assert given
    head = "\n".join([f"URL={parts.booking_url}{given[1]}", *assignments[1:]])

    def ask(command: str) -> str:
        return typed(of_cluster(f"{head}\n{command}", cluster.name), HOME=str(cluster.state))

    printed = {
        command: ask(command) for command in block if command.startswith("curl ") and "b-..." not in command
    }
    made = next(booking(answer) for command, answer in printed.items() if '"count": 2' in command)
    assert (made["state"], made["count"]) == ("active", 2)
    assert [
        answer for command, answer in printed.items() if "dry_run" in command and "id" in json.loads(answer)
    ] == []
    assert any(json.loads(answer).get("bookings") for answer in printed.values())

    rest = Rest(parts.booking_url, parts.people.token("alice", names.AUDIENCE))
    show, release, cancel = (command for command in block if "b-..." in command)
    assert booking(ask(show.replace("b-...", str(made["id"]))))["id"] == made["id"]
    assert booking(ask(release.replace("b-...", str(made["id"]))))["state"] == "ended"
    later = SystemClock().now() + timedelta(days=30)
    planned = rest.book(model=made["model"], start=later.isoformat(), duration="P2D")
    assert booking(ask(cancel.replace("b-...", str(planned.body["id"]))))["state"] == "cancelled"
    laws.check()


def test_kubectl_does_what_the_documents_say(cluster: Cluster, parts: Parts) -> None:
    assert parts
    printed = {}
    for command in KUBECTL:
        for_this = command.replace(" NAME", " default").replace(" NODE ", " node-a ")
        to_run = f"{for_this} --help" if VERB.match(command) else for_this
        printed[command] = typed(of_cluster(to_run, cluster.name), HOME=str(cluster.state))
    (inventory,) = (output for command, output in printed.items() if "jsonpath" in command)
    assert len(json.loads(inventory)["devices"]) == len(default_gpus(0))
    assert all(
        output for command, output in printed.items() if " token " in command or " delete lease " in command
    )


@pytest.mark.parametrize("command", PLUGIN)
def test_the_command_line_knows_every_word_in_the_documents(command: str) -> None:
    words = [word for word in shlex.split(command.removeprefix("kubectl gpu")) if word != "-h"]
    shown = CliRunner().invoke(gpu, [*words, "--help"])
    assert shown.exit_code == 0, shown.output
    assert "Usage: " in shown.output


def test_every_documented_command_is_tested_here_or_elsewhere(block: list[str]) -> None:
    prefix = ".venv/bin/python -m devcluster kubectl"
    left = {
        c for c in COMMANDS if c not in {*block, *KUBECTL, *PLUGIN, *HELM, prefix} and not ELSEWHERE.match(c)
    }
    assert not left
