"""The kubelet's PodResources API: names of the pods that it has accepted.

Source: kubelet 1.37.1, apis/podresources. ``List`` is not read-only: called during another Allocate it can
make the kubelet give one device to two pods. Its only use here is inside GetPreferredAllocation, when nothing
is in flight: no other call of it may be added (law L1).
"""

import socket
from pathlib import Path

import grpc

from deviceplugin.kubelet.channel import channel
from deviceplugin.kubeletapi.podresources_v1 import api_pb2, api_pb2_grpc

DEADLINE = 2.0
"""Seconds for one call."""


class PodResourcesError(Exception):
    """The list could not be read."""


class PodResources:
    """The kubelet's PodResources API, over its socket."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def names(self) -> frozenset[tuple[str, str]]:
        """(namespace, name) of every pod that the kubelet counts as active. Changes the kubelet's accounting.

        Raises:
            PodResourcesError: the kubelet did not respond, or refused.
        """
        with channel(self._socket) as connection:
            stub = api_pb2_grpc.PodResourcesListerStub(connection)
            try:
                answer = stub.List(api_pb2.ListPodResourcesRequest(), timeout=DEADLINE)
            except grpc.RpcError as error:
                why = f"{error.code().name}: {error.details()}"
                raise PodResourcesError(
                    f"The kubelet's PodResources API ({self._socket}) gave no list: {why}"
                ) from error
        return frozenset((pod.namespace, pod.name) for pod in answer.pod_resources)

    def problem(self) -> str | None:
        """Why nobody listens on its socket; None if somebody does. Calls nothing."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(DEADLINE)
            try:
                probe.connect(str(self._socket))
            except OSError as error:
                why = error.strerror or str(error)
                return f"Nobody answers at the kubelet's PodResources API ({self._socket}: {why})."
        return None
