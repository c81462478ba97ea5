"""One heap of the C library for all threads of a process.

glibc gives each thread a heap of its own (an arena), up to eight times as many as there are cores, and what
is freed in one is not used again by other threads. So a server with many threads keeps as many times what its
largest requests need, and takes thousands of requests to get there. Threads of Python allocate one after the
other anyway: they hold its lock meanwhile.
"""

import ctypes
from typing import Final

_ARENA_MAX: Final = -8
"""``M_ARENA_MAX`` of glibc's ``malloc.h``."""


def use_one_malloc_arena() -> bool:
    """Let all threads that are started from now on share one heap; False where that cannot be set."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_ARENA_MAX, 1) == 1
