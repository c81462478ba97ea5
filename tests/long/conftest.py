"""What every test on a whole cluster may ask for; each file has a cluster of its own (`make test-long`)."""

from tests.e2e.session import alice, bob, cluster, laws, live_watch, numbers, parts, playground, testbed

__all__ = ["alice", "bob", "cluster", "laws", "live_watch", "numbers", "parts", "playground", "testbed"]
