"""What a process follows is hidden from the garbage collector once all of it has been read."""

import gc
import threading

from cluster.cache import Informers
from cluster.fake.clock import eventually


def check_that_objects_are_frozen(following: Informers) -> None:
    """Run its threads until that has happened."""
    stop, before = threading.Event(), gc.get_freeze_count()
    threads = [threading.Thread(target=body, args=(stop,)) for body in following.threads.values()]
    try:
        for thread in threads:
            thread.start()
        eventually(lambda: gc.get_freeze_count() > before)
        assert following.unready_reason() is None
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
        gc.unfreeze()
