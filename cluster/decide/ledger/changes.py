"""Which names have changed since a number, for any number of readers that each remember their own number.

Only the last change of each name is remembered, and names that come and go are forgotten at some time: a
reader that has not asked since then must read everything.
"""

from typing import Final

SPARE: Final = 1_000
"""So many names are remembered in addition to twice the number of existing ones."""


class Changes:
    """The last change of every name, in order."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}
        """Name -> number of its last change, the newest last."""
        self._forgotten = 0
        """Some changes up to this number are forgotten."""
        self.number = 0
        """The number of the newest change."""

    def note(self, name: str, *, existing: int) -> None:
        """Record that a name has changed, while ``existing`` names exist."""
        self.number += 1
        self._last.pop(name, None)
        self._last[name] = self.number
        while len(self._last) > 2 * existing + SPARE:
            self._forgotten = self._last.pop(next(iter(self._last)))

    def since(self, number: int) -> list[str] | None:
        """Names that have changed after a number, the newest first; None if it may have been any name."""
        found = self.numbered_since(number)
        return None if found is None else list(found)

    def numbered_since(self, number: int) -> dict[str, int] | None:
        """As ``since``, with the number of each name's last change."""
        if number < self._forgotten:
            return None
        found: dict[str, int] = {}
        for name, changed in reversed(self._last.items()):
            if changed <= number:
                break
            found[name] = changed
        return found
