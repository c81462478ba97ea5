"""A kubelet for every test that asks for one."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.kubelet import FakeKubelet


@pytest.fixture
def kubelet() -> Iterator[FakeKubelet]:
    """Running; its folder is near the root, because the path of a unix socket may have 107 bytes."""
    root = Path(tempfile.mkdtemp(prefix="kl", dir="/tmp"))
    fake = FakeKubelet(root)
    fake.start()
    yield fake
    fake.stop()
    shutil.rmtree(root)
