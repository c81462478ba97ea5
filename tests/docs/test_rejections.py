"""Every reason of filter is in the one table, and no other code makes one."""

import ast
import re

from cluster.decide import reasons
from cluster.decide.reasons import Cause
from docs.generate import TABLES
from docs.tables.markdown import ROOT


def test_every_cause_is_in_the_table_once() -> None:
    causes = [found for found in vars(reasons).values() if isinstance(found, Cause)]
    assert sorted(causes, key=lambda cause: cause.code) == sorted(reasons.ALL, key=lambda cause: cause.code)
    lines = TABLES["rejections"]().splitlines()[2:]
    assert [line.split(" | ")[0].strip("| `") for line in lines] == [cause.code for cause in reasons.ALL]


def test_a_code_is_a_slug_that_no_other_cause_has() -> None:
    codes = [cause.code for cause in reasons.ALL]
    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", one) for one in codes)


def test_no_reason_is_made_without_its_cause() -> None:
    makers = {
        path.relative_to(ROOT).as_posix()
        for package in ("booking", "cluster", "extender")
        for path in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Reason"
    }
    assert makers == {"cluster/decide/reasons.py"}


def test_a_rejection_for_the_scheduler_names_the_code() -> None:
    assert reasons.NO_SUCH.reason(" of model x").with_code == "node(s) had no GPU of model x [no-such-gpu]"
    assert reasons.ON_HOLD.reason().code == "held-for-booked-pod"
