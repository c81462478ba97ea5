"""An API server in memory, behind the same interface as the real client, with its virtual clock.

For tests and simulations; no part of the product uses it.
"""

from cluster.fake.clock import FakeClock
from cluster.fake.server import Attributes, FakeKube

__all__ = ["Attributes", "FakeClock", "FakeKube"]
