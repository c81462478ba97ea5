"""Who has written what, for those who judge it."""

import threading
from concurrent.futures import ThreadPoolExecutor

from tests.patience import PATIENCE
from tests.scenarios.world import World


def test_a_part_that_writes_in_several_threads_is_not_taken_for_the_author_afterwards(world: World) -> None:
    """The mirror of the booking server writes up to eight objects at once."""
    inside, done = threading.Event(), threading.Event()

    def other() -> None:
        with world.server.calling():
            inside.set()
            assert done.wait(PATIENCE)

    with ThreadPoolExecutor(1) as pool:
        with world.server.calling():
            beside = pool.submit(other)
            assert inside.wait(PATIENCE)
        done.set()
        beside.result()
    assert world.caller is None
