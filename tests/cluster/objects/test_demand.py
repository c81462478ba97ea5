"""How many devices a pod holds at most: what runs together, and what is handed on."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster import names
from cluster.objects.demand import demand
from cluster.objects.pods import ContainerNeed, Kind

GPU, MIG = names.GPU_RESOURCE, "nvidia.com/mig-1g.5gb"


def need(kind: Kind, count: int, resource: str = GPU) -> ContainerNeed:
    return ContainerNeed(name="c", kind=kind, resource=resource, count=count)


@pytest.mark.parametrize(
    ("needs", "most"),
    [
        pytest.param([], {}, id="nothing"),
        pytest.param([need("app", 2)], {GPU: 2}, id="one container"),
        pytest.param([need("app", 2), need("app", 3)], {GPU: 5}, id="app containers run together"),
        pytest.param([need("init", 2), need("init", 3)], {GPU: 3}, id="init containers run one by one"),
        pytest.param([need("init", 3), need("app", 2)], {GPU: 3}, id="an app container takes over"),
        pytest.param([need("init", 1), need("app", 2)], {GPU: 2}, id="and gets what is missing"),
        pytest.param([need("sidecar", 1), need("app", 2)], {GPU: 3}, id="a sidecar keeps its own"),
        pytest.param([need("sidecar", 1), need("init", 3)], {GPU: 4}, id="beside init containers, too"),
        pytest.param(
            [need("init", 3), need("sidecar", 1), need("app", 2)], {GPU: 3}, id="it takes over, too"
        ),
        pytest.param([need("init", 2), need("app", 2, MIG)], {GPU: 2, MIG: 2}, id="of each resource its own"),
    ],
)
def test_devices_are_counted_as_the_kubelet_gives_them(
    needs: list[ContainerNeed], most: dict[str, int]
) -> None:
    assert demand(needs) == most


COUNTS = st.integers(1, 4)
INITS = st.lists(
    st.builds(need, st.sampled_from(["init", "sidecar"]), COUNTS, st.sampled_from([GPU, MIG])), max_size=5
)
APPS = st.lists(st.builds(need, st.just("app"), COUNTS, st.sampled_from([GPU, MIG])), max_size=4)


@given(INITS, APPS)
def test_the_demand_is_the_most_that_is_needed_at_any_moment(
    inits: list[ContainerNeed], apps: list[ContainerNeed]
) -> None:
    """Of an init container and the sidecars before it, or of all sidecars and app containers."""
    for resource in (GPU, MIG):
        kept, moments = 0, [0]
        for one in (one for one in inits if one.resource == resource):
            moments.append(kept + one.count)
            kept += one.count if one.kind == "sidecar" else 0
        moments.append(kept + sum(one.count for one in apps if one.resource == resource))
        assert demand([*inits, *apps]).get(resource, 0) == max(moments)


@given(INITS, APPS, st.randoms())
def test_the_order_of_app_containers_does_not_matter(
    inits: list[ContainerNeed], apps: list[ContainerNeed], random: Random
) -> None:
    assert demand([*inits, *random.sample(apps, len(apps))]) == demand([*inits, *apps])
