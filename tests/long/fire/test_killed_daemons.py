"""What our parts run on is killed and started again in the middle of the story, which ends the same."""

import pytest

from tests.e2e.session import NODES
from tests.long.fire.conftest import UnderFire
from tests.long.fire.harm import drawn
from tests.long.fire.short_story import LASTS

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize(
    "targets",
    [
        tuple(f"{node}/{daemon}" for node in NODES for daemon in ("kubelet", "containerd")),
        ("etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"),
    ],
    ids=["kubelets and containerds", "the control plane"],
)
def test_daemons_killed_at_random_moments_do_not_change_the_end(
    under_fire: UnderFire, seed: str, targets: tuple[str, ...]
) -> None:
    under_fire(drawn(seed, targets, LASTS))
