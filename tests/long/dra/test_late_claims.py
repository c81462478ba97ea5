"""Pods that are older than the template that they name, with the real controllers and kube-scheduler."""

from collections.abc import Iterator
from typing import Final

import pytest

from cluster import claim_names, names
from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.e2e.testbed import GPUS, NODES
from tests.e2e.usual import CONTROLLER
from tests.long.dra.ground import BY_CLAIM, claiming, given_by_claims, template

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

NODE: Final = NODES[1]
LATE: Final = "late"
POLICY: Final = names.setting("policy_file")


@pytest.fixture
def turns(playground: Playground, parts: Parts) -> Iterator[None]:
    """Pods wait for their turn, as they do where nothing is set."""
    assert playground  # it finds the usual controller when the test is over
    parts.controller().kill()
    parts.start_controller({key: value for key, value in CONTROLLER.items() if key != POLICY})
    parts.await_ready()
    yield
    parts.controller().kill()
    parts.start_controller(CONTROLLER)
    parts.await_ready()


@pytest.mark.usefixtures("turns")
def test_late_pods_run_and_leave_for_a_booked_one_and_wait_in_line(
    parts: Parts, playground: Playground, alice: Person, bob: Person
) -> None:
    with given_by_claims(parts, playground, NODE):
        late = [
            bob.create(claiming(f"late-{n}", node=NODE, resourceClaimTemplateName=LATE)) for n in range(GPUS)
        ]
        uids = {name: playground.pod(name).metadata.uid for name in late}
        assert not any(playground.pod(name).spec.priority_class_name for name in late)
        playground.apply(template(LATE))
        playground.await_phase(late)
        playground.apply(template("new"))  # and at once a pod: our watch may be behind
        one = bob.create(claiming("one", node=NODE, resourceClaimTemplateName="new"))
        assert playground.pod(one).spec.priority_class_name == names.OPPORTUNISTIC_CLASS
        playground.delete(one)
        playground.kubectl("delete", "resourceclaimtemplate", LATE, "-n", playground.namespace)
        again = bob.create(claiming("again", node=NODE, resourceClaimTemplateName=LATE))
        assert not playground.pod(again).spec.priority_class_name
        playground.apply(template(LATE))
        playground.await_that(
            "the late pod is in line",
            lambda: playground.pod(again).metadata.annotation(claim_names.IN_LINE) is not None,
        )
        alice.book(model=BY_CLAIM)
        booked = alice.create(claiming("booked", node=NODE))
        playground.await_phase([booked])
        left = playground.await_that(
            "one has left for it",
            lambda: [name for name in late if playground.pod(name).metadata.uid != uids[name]],
        )
        assert len(left) == 1
        other = next(name for name in late if name not in left)
        playground.delete(other)
        playground.await_phase([again])
