"""An API server in memory, behind the same interface as the real client, and the virtual clock it goes by.

For tests and simulations; no part of the product runs on it.
"""

from cluster.fake.clock import FakeClock
from cluster.fake.server import Attributes, FakeKube

__all__ = ["Attributes", "FakeClock", "FakeKube"]
