import pytest

from cluster.objects.pods import Pod
from extender.binding.bind_outcome import BindOutcome, bind_outcome
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
def test_the_outcome_of_a_bind_is_read_from_the_pod(pod: Pod | None, expected: BindOutcome) -> None:
    assert bind_outcome(pod, a_pod().at(3).obj) == expected
