"""Plays a document: its commands in their order, in one shell, as a reader types them."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.architecture import commands
from tests.architecture.checkout import ROOT

_NEXT: Final = "@@ next"


def typed(
    document: str, replaced: Mapping[str, str], environment: Mapping[str, str], *, only: str = ""
) -> dict[str, str]:
    """Every command of the document's blocks, as it is written there, and what it printed.

    Args:
        document: its path in the checkout.
        replaced: what differs from reader to reader, in the order in which it is replaced.
        environment: of the shell.
        only: how a command begins; others are left out.
    """
    blocks = commands.blocks_in((ROOT / document).read_text())
    lines = [line for block in blocks for line in block if line.startswith(only)]
    script = f"\necho; echo '{_NEXT}'\n".join(lines)
    for theirs, ours in replaced.items():
        script = script.replace(theirs, ours)
    # Whatever is left in the background ends with the shell.
    whole = f"exec 2>&1\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}\n"
    done = subprocess.run(
        ["/bin/bash", "-euo", "pipefail", "-c", whole],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    outputs = re.split(rf"\n?^{_NEXT}$\n?", done.stdout, flags=re.MULTILINE)
    assert done.returncode == 0, (
        f"{document}: {lines[len(outputs) - 1]} ended with {done.returncode}:\n{outputs[-1]}"
    )
    return dict(zip(lines, outputs, strict=True))


def programs(folder: Path, found: Mapping[str, Path]) -> str:
    """A PATH on which these programs come first."""
    folder.mkdir()
    for name, path in found.items():
        (folder / name).symlink_to(path)
    return f"{folder}:{os.environ['PATH']}"
