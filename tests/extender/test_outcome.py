import pytest

from cluster.objects.pods import Pod
from extender.outcome import Verdict, verdict
from tests.fakes.objects import a_pod


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (None, "never"),
        (a_pod("another").at(3).obj, "never"),
        (a_pod().at(4).ended().obj, "never"),
        (a_pod().at(4).on("n0").ended().obj, "never"),
        (a_pod().at(4).on("n0").obj, "bound"),
        (a_pod().at(3).obj, "wait"),
        (a_pod().at(4).obj, "never"),
    ],
)
def test_what_became_of_a_bind(pod: Pod | None, expected: Verdict) -> None:
    assert verdict(pod, a_pod().at(3).obj) == expected
