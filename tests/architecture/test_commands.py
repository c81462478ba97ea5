"""What documents give people to type exists: goals of the Makefile, programs, options.

test_typing_the_documents.py types all of it on a cluster; ``make run`` is played by tests/e2e/test_story.py.
"""

import os
import re
import subprocess
import sys

import pytest

from cluster import names
from tests.architecture import commands
from tests.architecture.checkout import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()
PHONY = set(re.findall(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)[0].split())
LISTED = set(re.findall(r"^([a-z0-9-]+):.*##", MAKEFILE, re.MULTILINE))
COMMANDS = sorted({c for name in commands.DOCUMENTS for c in commands.all_in(ROOT / name)})
MADE = [command for command in COMMANDS if commands.goals_of(command)]


def shell(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/nonexistent"), **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def test_make_help_lists_every_goal() -> None:
    listed = set(re.findall(r"^  make ([a-z0-9-]+) ", shell("make", "help").stdout, re.MULTILINE))
    assert listed == LISTED
    prerequisites = {
        word for line in re.findall(r"^[^\t#\n]+:([^=#\n]*)", MAKEFILE, re.MULTILINE) for word in line.split()
    }
    assert PHONY - listed <= prerequisites, "a goal that help does not list must be a part of others"


@pytest.mark.parametrize("command", MADE)
def test_make_commands_in_documents_use_existing_goals(command: str) -> None:
    done = shell("make", "--dry-run", *command.split()[1:])
    assert done.returncode == 0, done.stderr
    assert set(commands.goals_of(command)) <= LISTED


def test_continuous_integration_runs_the_command_of_the_readme() -> None:
    assert "make test" in COMMANDS
    last = (ROOT / ".ci" / "run").read_text().splitlines()[-1]
    # Beside it nothing but that the same is drawn each time.
    assert re.fullmatch(r'exec make test DRAWS="[^"]+"', last)


MODULES = sorted({match[1] for command in COMMANDS if (match := re.search(r"python -m ([\w.]+)", command))})


@pytest.mark.parametrize("module", MODULES)
def test_programs_named_in_documents_can_be_started(module: str) -> None:
    """One of our parts ends with code 2 and sentences where nothing is set; a tool says how it is used."""
    part = module.partition(".")[0] in {"booking", "deviceplugin", "extender"}
    done = shell(sys.executable, "-m", module, *([] if part else ["--help"]))
    assert done.returncode == (2 if part else 0), done.stderr
    assert "Traceback" not in done.stderr
    if part and "usage: " not in done.stderr:
        assert names.SETTINGS_PREFIX in done.stderr or "KUBERNETES_SERVICE_HOST" in done.stderr
    else:
        assert "usage" in (done.stdout + done.stderr).lower()
