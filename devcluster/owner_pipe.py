"""A pipe by which a cluster's first process notices that its owner has ended, however that came about.

The owner holds the writing end and never writes: the kernel closes it with the owner. The first process waits
for that at the reading end, and ends; the kernel then ends everything of the cluster (`devcluster.init`).
"""

import os
from typing import Self


class OwnerPipe:
    """Both ends, until the first process has its own. No process that the owner starts inherits one."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()
        self._open = {self.reading, self._writing}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hand_over(self) -> None:
        """The first process has the reading end: it alone."""
        self._close(self.reading)

    def close(self) -> None:
        """Close both ends here; a first process that does not outlive its owner then ends the cluster."""
        for end in tuple(self._open):
            self._close(end)

    def _close(self, end: int) -> None:
        if end in self._open:
            self._open.remove(end)
            os.close(end)
