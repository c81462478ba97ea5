"""When to register: the decision alone."""

from typing import Any

import pytest

from deviceplugin.kubelet.registration import Situation, SocketNames, Step, next_step
from deviceplugin.settings import LONGEST


def seen(**fields: Any) -> Situation:
    usual: dict[str, Any] = {
        "now": 100.0,
        "kubelet_answers": True,
        "stream_open": False,
        "stream_ended": False,
    }
    return Situation(**{**usual, **fields})


@pytest.mark.parametrize(
    ("situation", "step"),
    [
        pytest.param(seen(), Step.REGISTER, id="the kubelet is there and does not know us"),
        pytest.param(seen(stream_open=True), Step.REST, id="the kubelet listens"),
        pytest.param(seen(kubelet_answers=False), Step.WAIT, id="the kubelet is away"),
        pytest.param(
            seen(registered_at=99.0, tried_at=98.9, failures=1), Step.WAIT, id="its stream may still open"
        ),
        pytest.param(
            seen(registered_at=97.9, tried_at=97.8, failures=1),
            Step.REGISTER,
            id="no stream came in two seconds",
        ),
        pytest.param(
            seen(registered_at=99.5, tried_at=99.4, stream_ended=True),
            Step.REGISTER,
            id="the stream has ended",
        ),
        pytest.param(seen(tried_at=99.95, failures=1), Step.WAIT, id="it refused a moment ago"),
        pytest.param(seen(tried_at=99.8, failures=1), Step.REGISTER, id="it refused a while ago"),
        pytest.param(seen(tried_at=97.0, failures=9), Step.WAIT, id="it has refused many times"),
        pytest.param(seen(tried_at=95.0, failures=100_000), Step.REGISTER, id="it has refused for days"),
    ],
)
def test_the_next_step_follows_from_the_state_of_the_registration(situation: Situation, step: Step) -> None:
    assert next_step(situation) is step


def test_socket_names_are_never_used_twice_even_after_a_restart_in_the_same_pod() -> None:
    first, second = SocketNames("uid-1", 1_700_000_000_000), SocketNames("uid-1", 1_700_000_001_000)
    used = [first.next(), first.next(), second.next()]
    assert len(set(used)) == 3
    assert all(second.is_ours(name) for name in used)


@pytest.mark.parametrize(
    "changed", ["kubelet.sock", "gpu-booking-0badcafe-5.sock", "{name}.txt", "{name}-x.sock"]
)
def test_files_of_others_are_not_recognised_as_ours(changed: str) -> None:
    sockets = SocketNames("uid-1", 5)
    name = sockets.next().removesuffix(".sock")
    assert sockets.is_ours(f"{name}.sock")
    assert not sockets.is_ours(changed.format(name=name))


def test_the_path_of_a_socket_fits_in_the_longest_folder_of_a_kubelet() -> None:
    name = SocketNames("01234567-89ab-cdef-0123-456789abcdef", 1_800_000_000_000).next()
    assert len(name) == SocketNames.LONGEST
    assert LONGEST["device_plugins"] + len(f"/{name}") == 107
    assert LONGEST["kubelet_root"] + len("/pod-resources/kubelet.sock") == 107
