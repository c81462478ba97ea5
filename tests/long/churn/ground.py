"""The ground of the churn: a real control plane, all our parts, simulated nodes, and the people on them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from cluster import names
from cluster.kube.resources import NODES
from devcluster.cluster import Cluster
from devcluster.daemons import Daemon
from devcluster.demo.access import administrator
from devcluster.fakenvml import default_gpus
from devcluster.product import (
    Parts,
    booking_controller,
    booking_server,
    extender,
    node_agent,
)
from devcluster.product.part import Part
from devcluster.spec import ClusterSpec, NodeSpec
from devcluster.wait import poll
from tests.clusters import own
from tests.long import accounts
from tests.long.accounts import Account
from tests.long.churn import desired_nodes
from tests.long.churn.desired_nodes import LABEL, DesiredNodes

ACTORS: Final = Path(__file__).parent / "actors"
NAMESPACE: Final = "churn"
KUBELETS: Final = "kubelets"
AGENTS: Final = "agents"
NODE: Final = "node-a"
"""The one node with a kubelet: no user's pods run there."""
AGENT: Final = f"{NODE}/{node_agent.NAME}"
"""Its node agent, the one that is ours; those of the simulated nodes are played by ``AGENTS``."""
SECOND: Final = "booking-controller-2"
"""The controller to which the Service does not lead."""
CONTROLLERS: Final = (booking_controller.NAME, SECOND)
READY_WITHIN: Final = 180.0
IDENTITY: Final = {"GPU_BOOKING_IDENTITY_RULES": json.dumps(accounts.rules(NAMESPACE))}
POLICY: Final = {**IDENTITY, "GPU_BOOKING_COOLDOWN": "PT0S", "GPU_BOOKING_SHORTEST_BOOKING": "PT1S"}
MODULES: Final = {
    booking_server.NAME: "booking.server.__main__",
    extender.NAME: "extender.__main__",
    **dict.fromkeys(CONTROLLERS, "booking.controller.__main__"),
    AGENT: "deviceplugin.__main__",
}
"""Parts that say when they are ready -> their programs."""
_ACCOUNTS: Final = {
    booking_server.NAME: booking_server.ACCOUNT,
    extender.NAME: extender.ACCOUNT,
    **dict.fromkeys(CONTROLLERS, booking_controller.ACCOUNT),
    AGENT: node_agent.ACCOUNT,
}


class Ground:
    """A cluster with simulated nodes."""

    def __init__(self, cluster: Cluster, parts: Parts, count: int) -> None:
        self.cluster = cluster
        self.parts = parts
        self.kube = administrator(cluster)
        self._bare = {name: self._bare_start(name) for name in MODULES}
        self._desired = DesiredNodes(count=count)

    # --- nodes -----------------------------------------------------------------------------------------
    @property
    def nodes(self) -> tuple[str, ...]:
        """The simulated nodes."""
        return self._desired.nodes

    def configure(self, **changes: Any) -> None:
        """Change how the simulated nodes are to be: fields of ``DesiredNodes``."""
        self._desired = msgspec.structs.replace(self._desired, **changes)
        desired_nodes.write(self.cluster.state, self._desired)

    def start_nodes(self) -> None:
        """Both processes of the simulated nodes; all of these are Ready, and their node agents alive."""
        self.configure()
        for role in (KUBELETS, AGENTS):
            program = [sys.executable, str(ACTORS / "simulated_nodes.py"), self.cluster.name, role]
            self.cluster.spawn(role, program)

        def are_there() -> bool:
            known = self.kube.list(NODES).items
            return sum(bool(node.metadata.annotation(names.INVENTORY)) for node in known) >= len(self.nodes)

        assert poll(are_there, seconds=READY_WITHIN, every=0.5), self.cluster.log(KUBELETS)

    # --- people ----------------------------------------------------------------------------------------
    def people(self, count: int) -> list[Account]:
        """So many people, who may edit what is in the one namespace."""
        return accounts.make(self.cluster, self.parts.booking_url, NAMESPACE, count)

    # --- parts -----------------------------------------------------------------------------------------
    def start_wrong(self, name: str, seconds: float) -> Daemon:
        """Start a part, which must have been killed, on a machine whose clock is so far ahead."""
        part = self._usual[name]
        program = (sys.executable, str(ACTORS / "wrong_clock_part.py"), MODULES[name], str(seconds))
        return self.parts._start(replace(part, program=program))

    def start_right(self, name: str) -> Daemon:
        """Start a part as it usually is; it must have been killed."""
        return self.parts._start(self._usual[name])

    def run_bare(self, name: str) -> None:
        """Load a part's program and read all pods, as the part does first of all; returns when it is done.

        In a session of its own, as every part: the kernel shares a busy machine out among sessions.
        """
        program, environment = self._bare[name]
        subprocess.run(
            program, env=environment, check=True, stdout=subprocess.DEVNULL, start_new_session=True
        )

    def _bare_start(self, name: str) -> tuple[tuple[str, ...], dict[str, str]]:
        program = (sys.executable, str(ACTORS / "bare_part.py"), MODULES[name])
        return program, self.parts._account(_ACCOUNTS[name], node=NODE if name == AGENT else None)

    @cached_property
    def _usual(self) -> dict[str, Part]:
        """The parts whose clock can be wrong."""
        account, settings = self.parts._account, dict(IDENTITY)
        controller = account(booking_controller.ACCOUNT) | settings
        server = account(booking_server.ACCOUNT) | POLICY
        found = [
            extender.part(account(extender.ACCOUNT)),
            booking_server.part(database=self.parts.database, settings=server),
            *(
                booking_controller.part(name=name, number=number, settings=controller)
                for number, name in enumerate(CONTROLLERS)
            ),
        ]
        return {part.name: part for part in found}


@contextmanager
def ground(count: int) -> Iterator[Ground]:
    """A cluster with so many simulated nodes and two controllers."""
    spec = ClusterSpec(name=own("churn"), nodes=(NodeSpec(name=NODE, gpus=default_gpus(0)),))
    with Cluster.start(spec) as cluster:
        parts = Parts(cluster, elects=True)
        parts.deploy(server=POLICY, controller=IDENTITY)
        parts.start_controller(IDENTITY, name=SECOND)
        started = Ground(cluster, parts, count)
        started.start_nodes()
        yield started


def body(
    name: str,
    *,
    model: str | None = None,
    labels: dict[str, str] | None = None,
    finalizer: str | None = None,
    checkpoint: str | None = None,
) -> dict[str, Any]:
    """A pod with one GPU of a simulated node."""
    metadata: dict[str, Any] = {"name": name, "labels": labels or {}}
    annotations = {names.MODEL: model, names.CHECKPOINT_AT: checkpoint}
    metadata["annotations"] = {key: text for key, text in annotations.items() if text}
    if finalizer:
        metadata["finalizers"] = [finalizer]
    main = {"name": "main", "image": "none", "resources": {"limits": {names.GPU_RESOURCE: "1"}}}
    spec = {
        "nodeSelector": {LABEL: "true"},
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 2,
        "containers": [main],
    }
    return {"metadata": metadata, "spec": spec}
