"""What a page that polls has been shown: only the sections that have changed since are sent again.

Versions are kept in memory alone. A page whose version is unknown, after a restart or from another replica,
gets everything.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

REMEMBERED: Final = 256
"""Versions that are remembered; pages that poll at the same time and show the same share one."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page that is replaced as a whole."""

    id: str
    """Of the element that contains it."""
    html: str

    @property
    def digest(self) -> str:
        """The same for equal contents."""
        return hashlib.sha256(self.html.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Update:
    """What a page lacks."""

    version: str
    """Of what the page shows afterwards."""
    changed: tuple[Section, ...] | None
    """Sections to replace; None: everything, since it is not known what the page has, or others are on it."""


class PageVersions:
    """Versions of the sections of a page. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Mapping[str, str]] = OrderedDict()

    def update(self, sections: Sequence[Section], known: str) -> Update:
        """What a page lacks that shows the version ``known``; the new version is remembered."""
        digests = {section.id: section.digest for section in sections}
        version = hashlib.sha256(repr(digests).encode()).hexdigest()[:24]
        with self._lock:
            before = self._known.get(known)
            self._known[version] = digests
            self._known.move_to_end(version)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        if before is None or list(before) != list(digests):
            return Update(version, None)
        return Update(version, tuple(one for one in sections if before[one.id] != digests[one.id]))
