"""The pods of this node as the API server has them, within a deadline.

Used by ``pod_source`` for the first pods after a kubelet start, while the kubelet waits: the deadline bounds
the cost of a slow API server.
"""

from concurrent.futures import ThreadPoolExecutor

from cluster.kube.errors import ApiError
from cluster.kube.interface import Kube, Selection
from cluster.kube.resources import PODS
from cluster.objects.pods import Pod
from deviceplugin.kubelet.pod_source import StoredPodsError

DEADLINE = 2.0
"""Seconds for one request."""


class ApiServerPods:
    """Lists the pods that are bound to one node."""

    def __init__(self, kube: Kube, node: str, *, deadline: float = DEADLINE) -> None:
        self._kube = kube
        self._selection = Selection(field_selector=f"spec.nodeName={node}")
        self._deadline = deadline
        # More than one thread: a request that was given up continues in the background.
        self._asking = ThreadPoolExecutor(4, thread_name_prefix="stored-pods")

    def __call__(self) -> tuple[Pod, ...]:
        """The pods, including ended ones.

        Raises:
            StoredPodsError: the API server refuses, is unreachable, or is slower than the deadline.
        """
        answer = self._asking.submit(self._kube.list, PODS, self._selection)
        try:
            return answer.result(timeout=self._deadline).items
        except TimeoutError as error:
            raise StoredPodsError(
                f"The API server did not list the pods of this node within {self._deadline:g} s."
            ) from error
        except ApiError as error:
            raise StoredPodsError(f"The API server did not list the pods of this node: {error}") from error
