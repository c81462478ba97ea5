"""Laws on kubelets and more, on the newest that passes for 1.35, with kubelets without the Pods API."""

import pytest

from tests.long.versions.cases import *  # noqa: F403 - the tests
from tests.long.versions.cases import on

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]  # it may be built first

DESIGN = on("em135", emulates="1.35")
