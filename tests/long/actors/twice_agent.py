"""Our node agent, made to register again with a kubelet that runs on: it ends its own streams at a sign.

``python twice_agent.py SIGN``: whenever the file SIGN appears, it is removed and every open ListAndWatch
stream of this agent ends. All else is the agent as it is shipped.
"""

import sys
import threading
from pathlib import Path
from typing import Any

from deviceplugin import __main__ as agent
from deviceplugin.kubelet.streams import Streams


def watch(sign: Path) -> None:
    """Keep every Streams that is made, and close them at the sign."""
    made: list[Streams] = []
    make = Streams.__init__

    def remember(self: Streams, *arguments: Any) -> None:
        make(self, *arguments)
        made.append(self)

    Streams.__init__ = remember  # type: ignore[method-assign] # the one seam that production does not need

    def wait() -> None:
        tick = threading.Event()
        while not tick.wait(0.02):
            if sign.exists():
                sign.unlink()
                for streams in made:
                    streams.close()

    threading.Thread(target=wait, daemon=True).start()


if __name__ == "__main__":
    watch(Path(sys.argv[1]))
    sys.exit(agent.main())
