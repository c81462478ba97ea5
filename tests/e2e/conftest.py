"""What every end-to-end test may ask for."""

from tests.e2e.session import alice, bob, cluster, laws, live_watch, numbers, parts, playground, testbed

__all__ = ["alice", "bob", "cluster", "laws", "live_watch", "numbers", "parts", "playground", "testbed"]
