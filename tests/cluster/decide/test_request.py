from cluster import names
from cluster.decide.request import gpu_request_of
from tests.fakes.objects import A100, A6000, a_booking, a_pod


def test_without_a_booking_a_pod_wants_what_it_says() -> None:
    request = gpu_request_of(a_pod().asks(2).wants(A6000, A100).obj)

    assert request.demand == {names.GPU_RESOURCE: 2}
    assert request.models == {A100, A6000}
    assert request.selector.text == f" of model {A100} or {A6000}"
    assert (request.uid, request.hold) == ("uid-p", None)


def test_a_booked_pod_wants_the_model_that_was_booked() -> None:
    assert gpu_request_of(a_pod().asks(1).obj, a_booking()).models == {A100}
    assert gpu_request_of(a_pod().asks(1).wants(A6000, A100).obj, a_booking()).models == {A100}


def test_a_hold_pins_the_pod_while_it_waits() -> None:
    pod = a_pod().asks(1).kept("n0", "GPU-n0-0")
    hold = gpu_request_of(pod.obj).hold

    assert hold is not None
    assert (hold.node, hold.devices) == ("n0", ("GPU-n0-0",))
    assert gpu_request_of(pod.on("n0").obj).hold is None
    assert gpu_request_of(pod.terminating().obj).hold is None
    assert gpu_request_of(pod.with_annotation(names.HOLD, "?").obj).hold is None
