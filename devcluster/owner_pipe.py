"""A pipe by which a cluster's first process notices that its owner has ended, however it ended.

The owner holds the writing end and never writes; the kernel closes it when the owner ends. The first process
waits for that at the reading end and then ends; the kernel then ends everything of the cluster
(`devcluster.init`).
"""

import os
from typing import Self


class OwnerPipe:
    """Both ends, until the first process has the reading one. No other child of the owner inherits one."""

    def __init__(self) -> None:
        self.reading, self._writing = os.pipe()
        self._open = {self.reading, self._writing}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def hand_over(self) -> None:
        """Close the reading end here: the first process alone has it from now on."""
        self._close(self.reading)

    def close(self) -> None:
        """Close both ends here; a first process that does not outlive its owner then ends the cluster."""
        for end in tuple(self._open):
            self._close(end)

    def _close(self, end: int) -> None:
        if end in self._open:
            self._open.remove(end)
            os.close(end)
