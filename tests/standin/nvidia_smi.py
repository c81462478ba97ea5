"""Stands in for nvidia-smi: names the GPUs of ``GPUS``, ``UUID, MIG mode`` in lines, and sets compute modes.

The mode of a GPU is the text of the file of its name in ``MODES``.
"""

import os
import sys
from pathlib import Path


def main() -> int:
    """Answer the two ways in which it is called."""
    if sys.argv[1] == "-i":
        _, _, uuid, _, mode = sys.argv
        (Path(os.environ["MODES"]) / uuid).write_text(mode, encoding="utf-8")
    else:
        sys.stdout.write(os.environ["GPUS"] + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
