"""Laws on kubelets and more, on all of Kubernetes 1.31. Played where it is named:
``make test-long ONLY=tests/long/versions/real_1_31.py``.
"""

import pytest

from tests.long.versions.cases import *  # noqa: F403 - the tests
from tests.long.versions.cases import on

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]  # it may be built first

DESIGN = on("re131", kubernetes="1.31")
