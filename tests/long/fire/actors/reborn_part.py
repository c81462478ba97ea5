"""One of our parts, started again within milliseconds whenever it is killed: for tests that kill it often.

``python reborn_part.py MODULE``: imports the part's module, and runs its ``main`` in a fork of this process,
which knows nothing that the one before has known; what it is spared is to read its own code again. When the
fork ends by itself, this process ends as it did.
"""

import ctypes
import os
import signal
import sys
from importlib import import_module
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def part(module: str) -> int:
    """What the part does, in a process that dies with its parent."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    code: int = import_module(module).main()
    return code


def one_life(module: str) -> int:
    """How the part ended: its exit code, or minus the signal."""
    child = os.fork()
    if child == 0:
        sys.exit(part(module))
    signal.signal(signal.SIGTERM, lambda number, _frame: os.kill(child, number))
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    import_module(sys.argv[1])
    while (ended := one_life(sys.argv[1])) == -signal.SIGKILL:
        pass
    sys.exit(abs(ended))
