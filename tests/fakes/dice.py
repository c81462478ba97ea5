"""Random choices that are the same for the same seed."""

from hashlib import sha256


class Dice:
    """The same numbers for the same seed."""

    def __init__(self, *seed: int) -> None:
        self._seed = seed
        self._thrown = 0

    def below(self, most: int) -> int:
        """The next one, from 0 on."""
        self._thrown += 1
        return int.from_bytes(sha256(repr((self._seed, self._thrown)).encode()).digest()[:8]) % most
