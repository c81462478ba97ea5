"""Stands in for docker, kind, kubectl and helm: writes down how it was called, and answers what callers need.

``CALLS`` names the file for the calls, one line of JSON each. ``CLUSTERS`` are those that kind has,
``REFUSED`` is what fails: the beginning of a command line.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

ANSWERS = {
    "docker info": "{}",
    "kind get clusters": os.environ.get("CLUSTERS", ""),
}


def main() -> int:
    """Be the program that ``STANDS_FOR`` names."""
    words = [os.environ["STANDS_FOR"], *sys.argv[1:]]
    line = " ".join(words)
    with Path(os.environ["CALLS"]).open("a", encoding="utf-8") as calls:
        calls.write(json.dumps(words) + "\n")
    refused = os.environ.get("REFUSED", "")
    if refused and line.startswith(refused):
        return 1
    if line.startswith("docker image inspect"):
        sys.stdout.write(f"sha256:{hashlib.sha256(words[-1].encode()).hexdigest()}\n")
    sys.stdout.write(next((f"{said}\n" for asked, said in ANSWERS.items() if line.startswith(asked)), ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
