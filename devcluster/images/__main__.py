"""`make image`: build the product's images, and say where they are and how large."""

import sys
from typing import Final

from cluster.process.clock import SystemClock
from cluster.version import VERSION
from devcluster.binaries.errors import BuildError
from devcluster.binaries.progress import ProgressLine
from devcluster.images.product import TARGETS, Target, build, compressed

TARGET_MB: Final[dict[Target, int]] = {"node-agent": 120, "extender": 150, "booking": 150}
"""The size that each may have at most, compressed, in MB."""


def main() -> int:
    """Build them. Returns 1 if that fails, or one is larger than it should be."""
    try:
        images = build(VERSION, ProgressLine(sys.stderr, SystemClock()))
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    large = 0
    for target, image in zip(TARGETS, images, strict=True):
        size = compressed(image.tar) / 1e6
        large += size > TARGET_MB[target]
        print(f"{image.name}  {size:.0f} MB compressed (at most {TARGET_MB[target]})  {image.tar}")
    return 1 if large else 0


if __name__ == "__main__":
    sys.exit(main())
