"""An administrator's pod looks at a GPU by a claim: nobody waits for it, and it leaves for nobody."""

import pytest

from devcluster.product import Parts
from tests.e2e.persons import Person
from tests.e2e.playground import Playground
from tests.e2e.testbed import GPUS, NODES
from tests.long.dra.ground import BY_CLAIM, allocated, claiming, given_by_claims, template

pytestmark = pytest.mark.e2e

NODE = NODES[1]
LARGE = {"cel": {"expression": "device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('60Gi')) >= 0"}}
PAIR = 2
"""GPUs of the node that are so large."""


def test_a_pod_with_administrators_access_is_nobodys_holder(
    parts: Parts, playground: Playground, alice: Person, bob: Person
) -> None:
    label = "resource.kubernetes.io/admin-access=true"
    playground.kubectl("label", "namespace", playground.namespace, label)
    with given_by_claims(parts, playground, NODE):
        playground.apply(template("look", selectors=[LARGE], adminAccess=True))
        playground.apply(template("pair", selectors=[LARGE], count=PAIR))
        bobs = [bob.create(claiming(f"bob-{n}", node=NODE)) for n in range(GPUS)]
        playground.await_phase(bobs)
        looks = bob.create(claiming("looks", node=NODE, resourceClaimTemplateName="look"))
        playground.await_phase([looks])
        uid = playground.pod(looks).metadata.uid
        assert users(playground) == [*[1] * (GPUS - 1), 2]
        alice.book(PAIR, model=BY_CLAIM)
        alice.create(claiming("alice", node=NODE, resourceClaimTemplateName="pair"))
        playground.await_phase(["alice", looks, *bobs])
        assert playground.pod(looks).metadata.uid == uid
        assert users(playground) == [*[1] * (GPUS - 1), 2]


def users(playground: Playground) -> list[int]:
    """How many claims have each of the devices that any has, in order."""
    return sorted(len(claims) for claims in allocated(playground).values())
