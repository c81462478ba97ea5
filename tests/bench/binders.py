"""Many binds at a time: ``python -m tests.bench.binders PORT NUMBER SECONDS``, until standard input ends.

They begin one after the other, as kube-scheduler places pods, so that each second has the same number. Each
is repeated a second after its answer. An answer takes ``SECONDS``.
"""

import http.client
import json
import sys
from threading import Event, Thread
from typing import Final

from cluster.process.clock import SystemClock
from tests.bench.child import announce, await_end

BACKOFF_SECONDS: Final = 1.0
"""After this time kube-scheduler tries a pod again."""


def main(port: int, number: int, lasts: float) -> None:
    """Bind until standard input ends."""
    stop, clock = Event(), SystemClock()

    def bind(one: int) -> None:
        body = {"PodName": f"b{one}", "PodNamespace": "default", "PodUID": f"b{one}", "Node": "n"}
        clock.wait(stop, one * (lasts + BACKOFF_SECONDS) / number)
        while not stop.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("POST", "/bind", json.dumps(body), {"Content-Type": "application/json"})
            connection.getresponse().read()
            connection.close()
            clock.wait(stop, BACKOFF_SECONDS)

    for one in range(number):
        Thread(target=bind, args=(one,), daemon=True).start()
    announce("they bind")
    await_end()
    stop.set()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
