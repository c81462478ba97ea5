"""`python -m devcluster.binaries`: build what is missing and print the folder."""

import sys

from cluster.process.clock import SystemClock
from devcluster.binaries import BuildError, ProgressLine, ensure


def main() -> int:
    """Build with progress on stderr; the folder goes to stdout."""
    try:
        binaries = ensure(ProgressLine(sys.stderr, SystemClock()))
    except BuildError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. Nothing half-built is kept; the next run goes on from there.", file=sys.stderr)
        return 130
    print(binaries.root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
