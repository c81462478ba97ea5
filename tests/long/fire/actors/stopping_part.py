"""One of our parts, which stops itself where the test wants it, as a machine that hangs does.

``python stopping_part.py PROGRAM SEAM FOLDER``: PROGRAM is the part's module with ``main``; SEAM is
``module:Class.method``. When the file ``before`` is in FOLDER, it is removed and the process stops (SIGSTOP)
before the next call of the method; with ``after`` when that call has returned. What the part then asks of the
API server's subresources is written to FOLDER/calls, a line each. All else is the part as it is shipped.
"""

import signal
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

from cluster.kube.client import KubeClient
from cluster.kube.errors import ApiError


def stop(sign: Path) -> None:
    """Stop here, in this very thread, if the sign is there."""
    try:
        sign.unlink()
    except FileNotFoundError:
        return
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def stop_at(seam: str, folder: Path) -> None:
    """Make the method stop before and after itself."""
    module, _, path = seam.partition(":")
    owner_name, method = path.split(".")
    owner = getattr(import_module(module), owner_name)
    original = getattr(owner, method)

    def stopping(*arguments: Any, **more: Any) -> Any:
        stop(folder / "before")
        answer = original(*arguments, **more)
        stop(folder / "after")
        return answer

    setattr(owner, method, stopping)


def write_down(calls: Path) -> None:
    """Write down every call of a subresource, and what came of it."""
    original = KubeClient.create_subresource

    def create(self: KubeClient, resource: Any, subresource: str, *arguments: Any, **more: Any) -> Any:
        outcome = "done"
        try:
            return original(self, resource, subresource, *arguments, **more)
        except ApiError as error:
            outcome = type(error).__name__
            raise
        finally:
            with calls.open("a") as file:
                file.write(f"{subresource} {more.get('name')} {outcome}\n")

    KubeClient.create_subresource = create


if __name__ == "__main__":
    folder = Path(sys.argv[3])
    stop_at(sys.argv[2], folder)
    write_down(folder / "calls")
    sys.exit(import_module(sys.argv[1]).main())
