from cluster import names
from cluster.decide.wish import wish_of
from tests.fakes.objects import A100, A6000, a_booking, a_pod


def test_without_a_booking_a_pod_wants_what_it_says() -> None:
    wish = wish_of(a_pod().asks(2).wants(A6000, A100).obj)

    assert wish.demand == {names.GPU_RESOURCE: 2}
    assert wish.models == {A100, A6000}
    assert wish.wished.text == f" of model {A100} or {A6000}"
    assert (wish.uid, wish.pin) == ("uid-p", None)


def test_a_booked_pod_wants_the_model_that_was_booked() -> None:
    assert wish_of(a_pod().asks(1).obj, a_booking()).models == {A100}
    assert wish_of(a_pod().asks(1).wants(A6000, A100).obj, a_booking()).models == {A100}


def test_a_hold_pins_the_pod_while_it_waits() -> None:
    pod = a_pod().asks(1).kept("n0", "GPU-n0-0")
    pin = wish_of(pod.obj).pin

    assert pin is not None
    assert (pin.node, pin.devices) == ("n0", ("GPU-n0-0",))
    assert wish_of(pod.on("n0").obj).pin is None
    assert wish_of(pod.terminating().obj).pin is None
    assert wish_of(pod.with_annotation(names.HOLD, "?").obj).pin is None
