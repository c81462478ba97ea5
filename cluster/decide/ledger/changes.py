"""Which names have changed since when: for any number of readers, each with a number of its own.

Only the last change of each name is remembered, and names that come and go are not remembered indefinitely: a
reader that has not asked for so long that something is forgotten must read everything.
"""

from typing import Final

SPARE: Final = 1_000
"""Names beyond twice those that exist whose last change is remembered."""


class Changes:
    """The last change of every name, in order."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        """Name -> number of its last change, the newest last."""
        self._forgotten = 0
        """Changes up to this number are not known one by one any more."""
        self.number = 0
        """Of the newest change."""

    def note(self, name: str, *, existing: int) -> None:
        """A name has changed; so many exist."""
        self.number += 1
        self._last.pop(name, None)
        self._last[name] = self.number
        while len(self._last) > 2 * existing + SPARE:
            self._forgotten = self._last.pop(next(iter(self._last)))

    def since(self, number: int) -> list[str] | None:
        """Names that have changed after a number, the newest first; None where it may have been any."""
        found = self.numbered_since(number)
        return None if found is None else list(found)

    def numbered_since(self, number: int) -> dict[str, int] | None:
        """The same, with the number of each one's last change."""
        if number < self._forgotten:
            return None
        found: dict[str, int] = {}
        for name, changed in reversed(self._last.items()):
            if changed <= number:
                break
            found[name] = changed
        return found
