import threading

from cluster.fake.clock import eventually
from extender.flights import Flights


def test_the_second_for_one_pod_waits_for_the_first() -> None:
    flights = Flights()
    order: list[str] = []
    waiting = threading.Event()

    def second() -> None:
        waiting.set()
        with flights.alone("uid"):
            order.append("second")

    thread = threading.Thread(target=second)
    with flights.alone("uid"):
        thread.start()
        assert waiting.wait(10)
        order.append("first")
    thread.join(10)

    assert order == ["first", "second"]


def test_other_pods_do_not_wait() -> None:
    flights = Flights()
    done = threading.Event()

    def other() -> None:
        with flights.alone("b"):
            done.set()

    with flights.alone("a"):
        threading.Thread(target=other).start()
        assert done.wait(10)


def test_nothing_is_kept_of_pods_that_are_done() -> None:
    flights = Flights()
    with flights.alone("a"):
        pass

    eventually(lambda: not flights._locks)
