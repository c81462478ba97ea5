"""Stands in for nvidia-cuda-mps-control: a control daemon on a socket, and the client that gives it commands.

As the daemon (``-f``) it writes its words and its GPU into ``called`` of its pipe folder. A file ``hangs``
there keeps it from answering; then it makes a file ``waits``. Commands: ``get_server_list`` and ``quit``, as
NVIDIA documents them.
"""

import os
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path

FOLDER = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])


def main() -> int:
    """Be one of the two."""
    return daemon() if "-f" in sys.argv else client()


def daemon() -> int:
    """Serve until told to quit."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(FOLDER / "control"))
        listener.listen()
        words = [*sys.argv[1:], os.environ["CUDA_VISIBLE_DEVICES"], str(os.getpid())]
        (FOLDER / "called").write_text(" ".join(words), encoding="utf-8")
        while True:
            connection, _ = listener.accept()
            with connection:
                command = connection.recv(100).decode()
                while (FOLDER / "hangs").exists():
                    (FOLDER / "waits").touch()
                    threading.Event().wait(0.05)
                with suppress(OSError):
                    connection.sendall(b"4711\n")
            if command.startswith("quit"):
                return 0


def client() -> int:
    """Give one command."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(FOLDER / "control"))
        except OSError:
            sys.stdout.write("Cannot find MPS control daemon process\n")
            return 1
        connection.sendall(sys.stdin.readline().encode())
        sys.stdout.write(connection.recv(100).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
