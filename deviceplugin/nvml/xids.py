"""The XID errors that make a GPU unfit for new pods, and a short meaning of each.

Sources: NVIDIA's XID catalogue and the driver's own error texts. Errors of a single program are ignored: they
harm no other program, and the GPU continues to work. Announcements are ignored, too, because the recovery
action (``health.py``) shows whether anything must be done. An unlisted number counts as critical: NVML sends
events of this type only for critical errors.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

APPLICATION: Final[Mapping[int, str]] = MappingProxyType(
    {
        13: "graphics engine exception",
        31: "memory page fault of a program",
        43: "a program's work was stopped",
        45: "a program's channels were cleaned up",
        68: "video decoder exception",
        69: "graphics engine class error",
        109: "context switch timeout",
        137: "NVLink access fault of a program",
    }
)
"""XIDs that are errors of one program, not of the GPU -> what they mean."""

ANNOUNCEMENTS: Final[Mapping[int, str]] = MappingProxyType(
    {
        63: "a memory row or page was retired",
        92: "many corrected memory errors",
        94: "memory error contained to one program",
        121: "corrected error of the link to the CPU",
        154: "the recovery action has changed",
        156: "a hardware resource was retired",
        160: "a channel was retired",
    }
)
"""Events after which the GPU goes on; the recovery action shows whether a reset is wanted."""

CRITICAL: Final[Mapping[int, str]] = MappingProxyType(
    {
        32: "corrupted push buffer stream",
        38: "driver firmware error",
        46: "GPU stopped processing",
        48: "double-bit memory error",
        61: "micro-controller breakpoint or warning",
        62: "micro-controller halt",
        64: "a memory row or page could not be retired",
        74: "NVLink error",
        79: "GPU has fallen off the bus",
        95: "memory error not contained",
        110: "security fault",
        119: "GPU system processor does not answer",
        120: "GPU system processor error",
        140: "memory error not recovered",
        143: "GPU initialisation failed",
        145: "NVLink error",
        149: "NVLink error",
        157: "a hardware resource could not be retired",
        158: "GPU timeout that cannot be recovered",
        161: "a channel could not be retired",
    }
)
"""Critical errors whose meaning is known."""


NEEDS_RESET: Final = frozenset({46, 62, 64, 79, 95, 110, 119, 120, 140, 143, 157, 158, 161})
"""Those of them after which NVIDIA's catalogue says: reset the GPU, or boot the node."""


class ContradictionError(ValueError):
    """The settings name a number both as ignored and as critical."""


@dataclass(frozen=True, slots=True)
class XidPolicy:
    """The critical XIDs: the table with an administrator's additions and exceptions."""

    ignored: frozenset[int] = frozenset()
    """Not critical, even if the table says otherwise."""
    added: frozenset[int] = frozenset()
    """Critical, even if the table says otherwise."""

    def __post_init__(self) -> None:
        """Refuse a contradiction.

        Raises:
            ContradictionError: a number is in both.
        """
        both = sorted(self.ignored & self.added)
        if both:
            raise ContradictionError(f"XIDs cannot be both ignored and critical: {both}.")

    def is_critical(self, xid: int) -> bool:
        """Whether a GPU with this error must not be given to new pods."""
        if xid in self.added:
            return True
        return xid not in APPLICATION and xid not in ANNOUNCEMENTS and xid not in self.ignored

    def needs_reset(self, xid: int) -> bool:
        """Whether such a GPU stays so until it is reset."""
        return self.is_critical(xid) and xid in NEEDS_RESET


DEFAULT: Final = XidPolicy()
"""The table without additions or exceptions."""


def xid_message(xid: int) -> str:
    """The error for people.

    >>> xid_message(79)
    'XID 79: GPU has fallen off the bus'
    """
    meaning = CRITICAL.get(xid) or APPLICATION.get(xid) or ANNOUNCEMENTS.get(xid) or "critical GPU error"
    return f"XID {xid}: {meaning}"
