"""The device plugin that the kubelet calls: gRPC in, ``allocator`` and ``strategy``, gRPC out.

One servicer for each registration; ``registration`` serves it. Source: kubelet 1.37.1, cm/devicemanager.
"""

import threading
from collections.abc import Iterable, Iterator
from typing import NoReturn

import grpc
import structlog

from cluster.objects.inventory import Device
from cluster.objects.slots import is_slot, physical
from cluster.process.clock import Clock
from deviceplugin.allocation.preferred import AllocationRequest
from deviceplugin.allocation.prestart import StartDecision
from deviceplugin.allocator import Allocator
from deviceplugin.device_cache import DeviceCache
from deviceplugin.injection.mps_daemons import MpsDaemons
from deviceplugin.injection.share_edits import Hook, is_of_mps, share_edits
from deviceplugin.injection.share_files import ShareFiles
from deviceplugin.injection.strategy import ContainerInjection, Strategy, injection_of
from deviceplugin.kubelet.registration import options
from deviceplugin.kubelet.streams import Streams
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2, api_pb2_grpc

log = structlog.get_logger(__name__)

HEARTBEAT = 5.0
"""Seconds after which an idle ListAndWatch stream checks whether it is still wanted."""


class DevicePlugin(api_pb2_grpc.DevicePluginServicer):
    """The servicer behind one registered socket."""

    def __init__(
        self,
        allocator: Allocator,
        device_cache: DeviceCache,
        streams: Streams,
        *,
        resource: str,
        strategy: Strategy,
        shares: ShareFiles,
        daemons: MpsDaemons,
        hook: Hook | None = None,
        clock: Clock,
    ) -> None:
        self._allocator = allocator
        self._resource = resource
        self._device_cache = device_cache
        self._streams = streams
        self._strategy = strategy
        self._shares = shares
        self._daemons = daemons
        self._hook = hook
        self._clock = clock

    def GetDevicePluginOptions(
        self, request: api_pb2.Empty, context: grpc.ServicerContext
    ) -> api_pb2.DevicePluginOptions:
        """The optional calls that we want: for preferences, and before every start of a container."""
        del request, context
        return options()

    def ListAndWatch(
        self, request: api_pb2.Empty, context: grpc.ServicerContext
    ) -> Iterator[api_pb2.ListAndWatchResponse]:
        """The complete list, immediately and after every change."""
        del request
        wake = threading.Event()
        self._allocator.begin()
        self._streams.opened(wake)
        if not context.add_callback(lambda: self._streams.ended(wake)):
            self._streams.ended(wake)
            return
        try:
            with self._device_cache.listening(wake):
                yield from self._lists(context, wake)
        finally:
            self._streams.ended(wake)

    def GetPreferredAllocation(
        self, request: api_pb2.PreferredAllocationRequest, context: grpc.ServicerContext
    ) -> api_pb2.PreferredAllocationResponse:
        """The devices that were assigned to the pod that is being admitted."""
        choices = [
            self._allocator.prefer(_allocation_request(container_request))
            for container_request in request.container_requests
        ]
        for choice in choices:
            if not choice.devices:
                _refuse(context, choice.message)
        return api_pb2.PreferredAllocationResponse(
            container_responses=[
                api_pb2.ContainerPreferredAllocationResponse(deviceIDs=choice.devices) for choice in choices
            ]
        )

    def Allocate(
        self, request: api_pb2.AllocateRequest, context: grpc.ServicerContext
    ) -> api_pb2.AllocateResponse:
        """What the containers get; refused if the kubelet has chosen a device that another live pod holds."""
        wanted = [
            frozenset(container_request.devices_ids) for container_request in request.container_requests
        ]
        for devices in wanted:
            if message := self._allocator.held(devices):
                _refuse(context, message)
        for devices in wanted:
            self._shares.forget(filter(is_slot, devices))
        nodes = self._device_cache.now.nodes
        return api_pb2.AllocateResponse(
            container_responses=[
                _response(injection_of(devices, self._strategy, nodes)) for devices in wanted
            ]
        )

    def PreStartContainer(
        self, request: api_pb2.PreStartContainerRequest, context: grpc.ServicerContext
    ) -> api_pb2.PreStartContainerResponse:
        """The gate before every start of a container."""
        devices = frozenset(request.devices_ids)
        decision = self._allocator.gate(devices)
        if not decision.is_open:
            _refuse(context, decision.message)
        slots = sorted(filter(is_slot, devices))
        uuids, is_mps = set(map(physical, devices)), bool(slots) and is_of_mps(decision.pod)
        if message := self._daemons.why_not_yet(uuids, is_mps=is_mps):
            log.warning("the start of a container waits for a compute mode", message=message)
            _refuse(context, message)
        if slots and self._strategy is Strategy.CDI and (message := self._tell(decision, slots)):
            _refuse(context, message)
        return api_pb2.PreStartContainerResponse()

    def _tell(self, decision: StartDecision, slots: Iterable[str]) -> str | None:
        """Write down for a container how much of its GPUs it may use; returns why that failed."""
        if decision.pod is None:
            return "It is not known whose shares these are."
        known = self._device_cache.now.by_uuid
        devices = [known[uuid] for uuid in sorted(set(map(physical, slots))) if uuid in known]
        pipe = self._daemons.pipe(devices[0].uuid) if devices else None
        edits = share_edits(decision.pod, decision.containers, devices, pipe=pipe, hook=self._hook)
        try:
            self._shares.write(slots, edits)
        except OSError as error:
            log.error("the CDI specification of a share could not be written", message=str(error))  # noqa: TRY400 - no traceback
            return (
                f"The CDI specification of its share cannot be written: {error}. The container waits for it."
            )
        return None

    def _lists(
        self, context: grpc.ServicerContext, wake: threading.Event
    ) -> Iterator[api_pb2.ListAndWatchResponse]:
        sent: tuple[Device, ...] | None = None
        while context.is_active() and not self._streams.is_closing:
            wake.clear()
            devices = self._device_cache.now.listed.get(self._resource, ())
            if devices != sent:
                sent = devices
                yield listed(devices)
                # Not before: a generator resumes when the value that it yielded has been sent.
                self._streams.listed(wake)
                healthy = sum(device.is_healthy for device in devices)
                log.info(
                    "devices advertised to the kubelet",
                    resource=self._resource,
                    total=len(devices),
                    healthy=healthy,
                )
            elif context.is_active() and not self._streams.is_closing:
                self._clock.wait(wake, HEARTBEAT)


def listed(devices: tuple[Device, ...]) -> api_pb2.ListAndWatchResponse:
    """The devices for the kubelet, with their NUMA nodes if these are known."""
    return api_pb2.ListAndWatchResponse(devices=[_listed(device) for device in devices])


def _listed(device: Device) -> api_pb2.Device:
    topology = None
    if device.numa is not None:
        topology = api_pb2.TopologyInfo(nodes=[api_pb2.NUMANode(ID=device.numa)])
    health = "Healthy" if device.is_healthy else "Unhealthy"
    return api_pb2.Device(ID=device.uuid, health=health, topology=topology)


def _allocation_request(container_request: api_pb2.ContainerPreferredAllocationRequest) -> AllocationRequest:
    return AllocationRequest(
        frozenset(container_request.available_deviceIDs),
        frozenset(container_request.must_include_deviceIDs),
        container_request.allocation_size,
    )


def _response(given: ContainerInjection) -> api_pb2.ContainerAllocateResponse:
    return api_pb2.ContainerAllocateResponse(
        envs=dict(given.environment),
        devices=[
            api_pb2.DeviceSpec(container_path=node.path, host_path=node.host_path, permissions="rw")
            for node in given.nodes
        ],
        cdi_devices=[api_pb2.CDIDevice(name=name) for name in given.cdi_devices],
    )


def _refuse(context: grpc.ServicerContext, message: str) -> NoReturn:
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, message)
    raise AssertionError("abort has raised already")
