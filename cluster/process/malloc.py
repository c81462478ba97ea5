"""One heap of the C library for all threads of a process.

glibc gives each thread a heap of its own (an arena), up to eight per core, and memory that is freed in one is
not reused by other threads. So a server with many threads ends up with that many times the memory that its
largest requests need, after thousands of requests. Python's threads allocate one after the other anyway,
since they hold the interpreter's lock meanwhile.
"""

import ctypes
from typing import Final

_ARENA_MAX: Final = -8
"""``M_ARENA_MAX`` of glibc's ``malloc.h``."""


def use_one_malloc_arena() -> bool:
    """Let all threads that are started from now on share one heap; False if that cannot be set."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_ARENA_MAX, 1) == 1
