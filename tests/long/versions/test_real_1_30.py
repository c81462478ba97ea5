"""Laws on kubelets and more, on all of Kubernetes 1.30, the lowest that the chart takes."""

import pytest

from tests.long.versions.cases import *  # noqa: F403 - the tests
from tests.long.versions.cases import on

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]  # it may be built first

DESIGN = on("re130", kubernetes="1.30")
