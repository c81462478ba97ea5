"""From a clone to the demo's first page: the first time, with nothing cached, and again.

The floors are the virtual environment alone, and a Python that loads what the demo's pages are made with.
"""

import os
import re
import signal
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from devcluster.paths import CHECKOUT
from tests.bench.lab import Lab
from tests.bench.measure import Measure
from tests.bench.rows import Kind, Row, Target
from tests.bench.timing import seconds

FIRST: Final = Kind(
    "demo-first",
    "`make demo` in a fresh clone, nothing cached: from git clone to the page",
    "s",
    "a virtual environment without packages",
    target=Target(value=60),
)
AGAIN: Final = Kind(
    "demo-again",
    "`make demo` from the second time on: from the command to the page",
    "s",
    "a Python that imports Flask and peewee",
    target=Target(value=5),
)
_ADDRESS: Final = re.compile(r"http://\S+/demo/enter\S+")
_ENDS_WITHIN: Final = 30
DEMO: Final = ("make", "demo", "PORT=0", "ARGS=--no-browser")


def measure(_lab: Lab) -> Iterator[Row]:
    """Both, in a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        clone, environ = Path(folder) / "clone", {**os.environ, "PIP_CACHE_DIR": f"{folder}/cache"}

        def first() -> None:
            subprocess.run(["git", "clone", "-q", CHECKOUT, clone], check=True)
            _to_the_page(clone, environ)

        alone = seconds(lambda: subprocess.run(["python3", "-m", "venv", f"{folder}/venv"], check=True))
        yield FIRST.row(seconds(first), alone)
        python = clone / ".venv-demo" / "bin" / "python"
        imports = seconds(lambda: subprocess.run([python, "-c", "import flask, peewee"], check=True))
        yield AGAIN.row(seconds(lambda: _to_the_page(clone, environ)), imports)


def _to_the_page(clone: Path, environ: dict[str, str]) -> None:
    """Start the demo, read its first page, and end it."""
    with subprocess.Popen(
        DEMO, cwd=clone, env=environ, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            if process.stdout is None:
                raise RuntimeError("The demo's output is not read.")
            found = next(filter(None, map(_ADDRESS.search, process.stdout)), None)
            if found is None:
                raise RuntimeError("The demo has printed no address; run it by hand to see why.")
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            with opener.open(found[0]) as page:
                if b"h100-01" not in page.read():
                    raise RuntimeError("The demo's first page shows no nodes.")
        finally:
            os.killpg(process.pid, signal.SIGINT)
            process.wait(_ENDS_WITHIN)


MEASURE: Final = Measure("demo", (FIRST, AGAIN), measure)
