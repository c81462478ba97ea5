"""Which commit is played."""

import subprocess
from pathlib import Path


def commit_of(checkout: Path) -> str:
    """The short name of a checkout's commit; with a plus where the checkout has changes."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=checkout, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else "")
