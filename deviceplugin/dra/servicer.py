"""What the kubelet calls: gRPC in, ``driver`` and the health of devices, gRPC out.

Source: kubelet 1.37.1, cm/dra.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc

from cluster.process.clock import Clock
from deviceplugin.device_cache import DeviceCache
from deviceplugin.dra.claim_files import cdi_names
from deviceplugin.dra.driver import ClaimDriver, Pool
from deviceplugin.dra.prepare import ClaimReference, Refusal
from deviceplugin.dra.prepared import PreparedClaim
from deviceplugin.kubeletapi.dra_health_v1 import api_pb2 as health_pb2
from deviceplugin.kubeletapi.dra_health_v1 import api_pb2_grpc as health_grpc
from deviceplugin.kubeletapi.dra_v1 import api_pb2, api_pb2_grpc
from deviceplugin.kubeletapi.pluginregistration_v1 import api_pb2 as registration_pb2
from deviceplugin.kubeletapi.pluginregistration_v1 import api_pb2_grpc as registration_grpc

PLUGIN_TYPE = "DRAPlugin"
SERVICES = ("v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
"""What the kubelet may call. It takes the newest that it knows: of health one before 1.37 knows v1alpha1."""
HEARTBEAT = 20.0
"""Seconds after which the health of all devices is reported again, although nothing has changed."""
HEALTH_TIMEOUT = 60
"""Seconds after which the kubelet takes the health of a device for unknown."""


class Claims(api_pb2_grpc.DRAPluginServicer):
    """Prepare and Unprepare."""

    def __init__(self, driver: ClaimDriver, pool: str) -> None:
        self._driver = driver
        self._pool = pool

    def NodePrepareResources(
        self, request: api_pb2.NodePrepareResourcesRequest, context: grpc.ServicerContext
    ) -> api_pb2.NodePrepareResourcesResponse:
        """The devices of each claim, or why it has none."""
        del context
        wanted = [
            ClaimReference(uid=one.uid, namespace=one.namespace, name=one.name) for one in request.claims
        ]
        return api_pb2.NodePrepareResourcesResponse(
            claims={uid: self._prepared(one) for uid, one in self._driver.prepare_all(wanted).items()}
        )

    def NodeUnprepareResources(
        self, request: api_pb2.NodeUnprepareResourcesRequest, context: grpc.ServicerContext
    ) -> api_pb2.NodeUnprepareResourcesResponse:
        """Frees the devices of each claim."""
        del context
        return api_pb2.NodeUnprepareResourcesResponse(
            claims={
                one.uid: api_pb2.NodeUnprepareResourceResponse(error=self._driver.unprepare(one.uid) or "")
                for one in request.claims
            }
        )

    def _prepared(self, answer: PreparedClaim | Refusal) -> api_pb2.NodePrepareResourceResponse:
        if isinstance(answer, Refusal):
            return api_pb2.NodePrepareResourceResponse(error=answer.message)
        return api_pb2.NodePrepareResourceResponse(
            devices=[
                api_pb2.Device(
                    # A container names the request, never one of its alternatives, and the kubelet compares.
                    request_names=[one.request.partition("/")[0]],
                    pool_name=self._pool,
                    device_name=one.device,
                    cdi_device_ids=cdi_names(answer, one),
                    share_id=one.share,
                )
                for one in answer.devices
            ]
        )


class Health(health_grpc.DRAResourceHealthServicer):
    """The health of the devices, which the kubelet writes into the status of pods."""

    def __init__(self, pool: Pool, device_cache: DeviceCache, clock: Clock) -> None:
        self._pool = pool
        self._device_cache = device_cache
        self._clock = clock

    def NodeWatchResources(
        self, request: health_pb2.NodeWatchResourcesRequest, context: grpc.ServicerContext
    ) -> Iterator[health_pb2.NodeWatchResourcesResponse]:
        """All devices, at once, after every change and now and then."""
        del request
        wake = threading.Event()
        if not context.add_callback(wake.set):
            return
        with self._device_cache.listening(wake):
            while context.is_active():
                wake.clear()
                yield self._all()
                if context.is_active():
                    self._clock.wait(wake, HEARTBEAT)

    def _all(self) -> health_pb2.NodeWatchResourcesResponse:
        by_uuid, now = self._device_cache.now.by_uuid, int(self._clock.now().timestamp())
        found = []
        for name, uuid in sorted(self._pool.devices().items()):
            device = by_uuid.get(uuid)
            is_well = device is None or device.is_healthy
            found.append(
                health_pb2.DeviceHealth(
                    device=health_pb2.DeviceIdentifier(pool_name=self._pool.node, device_name=name),
                    health=health_pb2.HEALTHY if is_well else health_pb2.UNHEALTHY,
                    last_updated_time=now,
                    health_check_timeout_seconds=HEALTH_TIMEOUT,
                    message="" if device is None or is_well else device.reason or "",
                )
            )
        return health_pb2.NodeWatchResourcesResponse(devices=found)


def serve(claims: Claims, health: Health, server: grpc.Server) -> None:
    """Serve all ``SERVICES``.

    The messages of older versions are those of v1 without their last fields, which such a kubelet skips.
    """
    api_pb2_grpc.add_DRAPluginServicer_to_server(claims, server)
    health_grpc.add_DRAResourceHealthServicer_to_server(health, server)
    older_claims: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "NodePrepareResources": grpc.unary_unary_rpc_method_handler(
            claims.NodePrepareResources,
            api_pb2.NodePrepareResourcesRequest.FromString,
            api_pb2.NodePrepareResourcesResponse.SerializeToString,
        ),
        "NodeUnprepareResources": grpc.unary_unary_rpc_method_handler(
            claims.NodeUnprepareResources,
            api_pb2.NodeUnprepareResourcesRequest.FromString,
            api_pb2.NodeUnprepareResourcesResponse.SerializeToString,
        ),
    }
    older_health: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "NodeWatchResources": grpc.unary_stream_rpc_method_handler(
            health.NodeWatchResources,
            health_pb2.NodeWatchResourcesRequest.FromString,
            health_pb2.NodeWatchResourcesResponse.SerializeToString,
        )
    }
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin", older_claims
            ),
            grpc.method_handlers_generic_handler("v1alpha1.DRAResourceHealth", older_health),
        )
    )


class Registration(registration_grpc.RegistrationServicer):
    """What the kubelet asks a plugin whose socket it has found."""

    def __init__(self, driver: str, endpoint: str, reported: Callable[[str | None], None]) -> None:
        """Args: reported: gets why the kubelet has not registered the driver; None if it has."""
        self._driver = driver
        self._endpoint = endpoint
        self._reported = reported

    def GetInfo(
        self, request: registration_pb2.InfoRequest, context: grpc.ServicerContext
    ) -> registration_pb2.PluginInfo:
        """Which driver this is, and where it is served."""
        del request, context
        return registration_pb2.PluginInfo(
            type=PLUGIN_TYPE, name=self._driver, endpoint=self._endpoint, supported_versions=SERVICES
        )

    def NotifyRegistrationStatus(
        self, request: registration_pb2.RegistrationStatus, context: grpc.ServicerContext
    ) -> registration_pb2.RegistrationStatusResponse:
        """The kubelet's answer."""
        del context
        self._reported(None if request.plugin_registered else request.error or "no reason was given")
        return registration_pb2.RegistrationStatusResponse()
