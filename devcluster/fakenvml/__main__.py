"""`python -m devcluster.fakenvml FOLDER NODE LIBRARY`: lays simulated GPUs into a folder of their node.

GPUs that are there stay as they are: a test may have changed them, and the node may have been restarted. The
library is replaced.
"""

import shutil
import sys
from pathlib import Path
from typing import Final

from devcluster.fakenvml import FakeNvml, devicenodes, gpus_of
from devcluster.fakenvml.build import SONAME

USAGE: Final = "usage: python -m devcluster.fakenvml FOLDER NODE LIBRARY"


def main(words: list[str]) -> int:
    """Lay out what node agents and containers see. Returns 2 if the words are not three."""
    if words == ["--help"]:
        print(USAGE)
        return 0
    try:
        place, node, compiled = words
    except ValueError:
        print(USAGE, file=sys.stderr)
        return 2
    folder = Path(place)
    gpus, simulated = gpus_of(node), FakeNvml(folder)
    if not simulated.state.exists():
        simulated.create(gpus)
    (folder / "dev").mkdir(exist_ok=True)
    devicenodes.make(folder / "dev", gpus)
    # Replaced in one step: an agent may be reading the old one.
    fresh = folder / f"{SONAME}.new"
    shutil.copy(compiled, fresh)
    fresh.replace(folder / SONAME)
    print(f"{node} has {len(gpus)} simulated GPUs in {folder}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
