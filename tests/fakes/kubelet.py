"""A kubelet in memory, over real gRPC on unix sockets, for tests of the device plugin.

It follows the order and the bookkeeping of kubelet 1.37.1 (cm/devicemanager and its plugin/v1beta1,
HandlePodAdditions, apis/pods, apis/podresources): who is asked when, what is in the checkpoint at that
time, what the endpoint store remembers. Admission runs in the thread of the test; the streams of plugins in
their own.
"""

import hashlib
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import grpc

from cluster import names
from deviceplugin.kubeletapi.core_v1 import api_pb2 as core
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2 as dp
from deviceplugin.kubeletapi.deviceplugin_v1beta1 import api_pb2_grpc as dp_grpc
from deviceplugin.kubeletapi.podresources_v1 import api_pb2 as resources_api
from deviceplugin.kubeletapi.podresources_v1 import api_pb2_grpc as resources_api_grpc
from deviceplugin.kubeletapi.pods_v1alpha1 import api_pb2 as pods_api
from deviceplugin.kubeletapi.pods_v1alpha1 import api_pb2_grpc as pods_api_grpc

GPU = names.GPU_RESOURCE
TERMINAL = ("Failed", "Succeeded")


@dataclass
class FakeContainer:
    """A container that needs GPUs, or none."""

    name: str
    gpus: int = 0
    init: bool = False
    sidecar: bool = False
    resource: str = GPU
    amounts: dict[str, int] = field(default_factory=dict)
    """Its other limits."""


@dataclass
class FakePod:
    """A pod bound to the node."""

    name: str
    uid: str
    containers: list[FakeContainer]
    annotations: dict[str, str] = field(default_factory=dict)
    namespace: str = "default"
    phase: str = "Pending"
    started: bool = False
    deleting: bool = False
    message: str = ""

    @property
    def ordered(self) -> list[FakeContainer]:
        """Containers in the order in which the kubelet serves them."""
        return sorted(self.containers, key=lambda c: not (c.init or c.sidecar))

    def marshal(self) -> bytes:
        """The pod as the Pods API hands it out."""
        pod = core.Pod()
        pod.metadata.name, pod.metadata.namespace, pod.metadata.uid = self.name, self.namespace, self.uid
        pod.metadata.annotations.update(self.annotations)
        if self.deleting:
            pod.metadata.deletionTimestamp.seconds = 1_700_000_000
        for container in self.containers:
            where = pod.spec.initContainers if container.init or container.sidecar else pod.spec.containers
            made = where.add(name=container.name)
            if container.sidecar:
                made.restartPolicy = "Always"
            if container.gpus:
                for resource, count in {container.resource: container.gpus, **container.amounts}.items():
                    made.resources.limits[resource].string = str(count)
        pod.status.phase = self.phase
        if self.started:
            pod.status.startTime.seconds = 1_700_000_000
        return pod.SerializeToString()


class AdmissionError(Exception):
    """The pod was rejected; it is Failed with this message."""


class _Endpoint:
    """One plugin that has registered."""

    def __init__(self, path: Path, resource: str) -> None:
        self.path = path
        self.resource = resource
        self.channel = grpc.insecure_channel(
            f"unix:{path}", options=[("grpc.default_authority", "localhost")]
        )
        self.stub = dp_grpc.DevicePluginStub(self.channel)
        self.options = dp.DevicePluginOptions()
        self.stopped = False


class FakeKubelet(dp_grpc.RegistrationServicer):
    """The kubelet: ``start`` and ``stop`` it, ``admit`` pods, ``prestart`` their containers."""

    def __init__(self, root: Path, plugins: Path | None = None) -> None:
        """Args: plugins: a constant of the real kubelet, whatever its root folder is."""
        self.root = root
        self.plugins = plugins or root / "device-plugins"
        self.pods: dict[str, FakePod] = {}
        self.names_accepted: list[str] = []
        self.registered: list[str] = []
        """Socket names of all registrations that were accepted."""
        self.refusals: list[str] = []
        self.initializing = False
        self.flooded = 0
        """So many more calls of the Pods API are rejected by the rate limit."""
        self.calls: list[str] = []
        """Names of the calls of its APIs, in order."""
        self.lists: dict[str, dict[str, dp.Device]] = {}
        """Resource -> its devices, by id."""
        self.allocated: set[str] = set()
        self.held: dict[tuple[str, str], set[str]] = {}
        self._named: dict[tuple[str, str], str] = {}
        self.answers: dict[tuple[str, str], dp.ContainerAllocateResponse] = {}
        self.available: list[set[str]] = []
        self.streams_ended = 0
        self.has_pods_api = True
        """False: as before Kubernetes 1.37."""
        self.lists_active_pods = True
        """False: List names every pod that it knows, ended ones too, as before Kubernetes 1.34."""
        self.asks_for_preferences = True
        """False: as where devices aligned by NUMA are exactly enough."""
        self.damaged_checkpoint: str | None = None
        """What is in the checkpoint instead of the truth."""
        self._lock = threading.RLock()
        self._clients: list[_Endpoint] = []
        self._store: dict[Path, _Endpoint] = {}
        self._current: dict[str, _Endpoint] = {}
        self._servers: list[grpc.Server] = []
        for folder in (self.plugins, root / "pod-resources", root / "pods-api"):
            folder.mkdir(parents=True, exist_ok=True)

    # --- its life -----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Delete every plugin socket, read the checkpoint, listen."""
        for path in self.plugins.iterdir():
            if path.is_socket():
                path.unlink()
        self._read_checkpoint()
        self._serve(self.plugins / "kubelet.sock", dp_grpc.add_RegistrationServicer_to_server, self)
        if self.has_pods_api:
            self._serve(
                self.root / "pods-api" / "pods-api.sock",
                pods_api_grpc.add_PodsServicer_to_server,
                _Pods(self),
            )
        self._serve(
            self.root / "pod-resources" / "kubelet.sock",
            resources_api_grpc.add_PodResourcesListerServicer_to_server,
            _Resources(self),
        )

    def stop(self) -> None:
        """End, as by SIGKILL: plugins see their streams end, sockets stay behind."""
        with self._lock:
            clients, self._clients = self._clients, []
            self._store, self._current, self.lists = {}, {}, {}
            for client in clients:
                client.stopped = True
        for client in clients:
            client.channel.close()
        for server in self._servers:
            server.stop(0).wait()
        self._servers = []

    def restart(self) -> None:
        """Stop and start; the first batch of pods is not admitted yet."""
        self.stop()
        self.initializing = True
        self.start()

    # --- what a Node object would say -----------------------------------------------------------------------

    @property
    def devices(self) -> dict[str, dp.Device]:
        """Those of all resources, by id; slots of shares are in ``slots``."""
        lists = (some for resource, some in self.lists.items() if resource != names.SHARED_RESOURCE)
        return {name: device for some in lists for name, device in some.items()}

    @property
    def slots(self) -> dict[str, dp.Device]:
        """Slots of GPUs that can be shared, by id."""
        return self.lists.get(names.SHARED_RESOURCE, {})

    @property
    def capacity(self) -> int:
        """Devices known."""
        return len(self.devices)

    @property
    def allocatable(self) -> int:
        """Devices known and healthy."""
        return sum(device.health == "Healthy" for device in self.devices.values())

    # --- registration --------------------------------------------------------------------------------

    def Register(self, request: dp.RegisterRequest, context: grpc.ServicerContext) -> dp.Empty:
        """Dial the plugin, ask for its options, open its stream."""
        path = self.plugins / request.endpoint
        endpoint = _Endpoint(path, request.resource_name)
        with self._lock:
            self._clients.append(endpoint)
        try:
            endpoint.options = endpoint.stub.GetDevicePluginOptions(dp.Empty(), timeout=5)
        except grpc.RpcError as error:
            self._forget_clients(path)
            self._refuse(context, f"failed to dial device plugin: {error.code()}")
        with self._lock:
            if path in self._store:
                self._forget_clients(path)  # and so the live one, too
                self._refuse(context, f"device plugin already connected: {path}")
            self._store[path] = self._current[endpoint.resource] = endpoint
            self.registered.append(request.endpoint)
        threading.Thread(target=self._run, args=(endpoint,), daemon=True).start()
        return dp.Empty()

    def _refuse(self, context: grpc.ServicerContext, message: str) -> NoReturn:
        self.refusals.append(message)
        context.abort(grpc.StatusCode.UNKNOWN, message)
        raise AssertionError

    def _forget_clients(self, path: Path) -> None:
        with self._lock:
            self._clients = [client for client in self._clients if client.path != path]

    def _run(self, endpoint: _Endpoint) -> None:
        try:
            for answer in endpoint.stub.ListAndWatch(dp.Empty()):
                with self._lock:
                    if not endpoint.stopped:
                        self.lists[endpoint.resource] = {device.ID: device for device in answer.devices}
                        self.write_checkpoint()
        except (grpc.RpcError, ValueError):
            pass
        with self._lock:
            self.streams_ended += 1
            client = next((c for c in self._clients if c.path == endpoint.path), None)
            if client is None:  # forgotten: nobody notices that the stream has ended
                return
            self._forget_clients(endpoint.path)
            self._disconnected(endpoint.path)
        client.channel.close()

    def _disconnected(self, path: Path) -> None:
        gone = self._store.pop(path)
        gone.stopped = True
        others = [one for one in self._store.values() if one.resource == gone.resource]
        if others:
            self._current[gone.resource] = others[0]
        else:
            for device in self.lists.get(gone.resource, {}).values():
                device.health = "Unhealthy"

    # --- admission ------------------------------------------------------------------------------------

    def admit(self, pod: FakePod) -> bool:
        """Take a pod in, as HandlePodAdditions does for one pod; whether it was accepted."""
        self.pods[pod.uid] = pod
        reusable: set[str] = set()
        try:
            for container in pod.ordered:
                self._allocate(pod, container, reusable)
                got = self.held.get((pod.uid, container.name), set())
                if container.init and not container.sidecar:
                    reusable |= got
                else:
                    reusable -= got
        except AdmissionError as error:
            pod.phase, pod.message = "Failed", str(error)
            return False
        return True

    def reject(self, pod: FakePod) -> None:
        """Refuse a pod before devices are asked for, as one with a forbidden sysctl."""
        self.pods[pod.uid] = pod
        pod.phase = "Failed"

    def admit_first_batch(self, pods: list[FakePod]) -> None:
        """Admit what was bound while the kubelet was down, then count as initialized."""
        for pod in pods:
            self.admit(pod)
        self.initializing = False

    def end(self, uid: str, phase: str = "Succeeded") -> None:
        """A pod ends: its devices are free, its checkpoint entry stays until the next allocation."""
        self.pods[uid].phase = phase

    def forget(self, uid: str) -> None:
        """A pod that has ended is gone from the kubelet's list."""
        del self.pods[uid]

    def free_by_mistake(self, uid: str) -> None:
        """The double allocation: a foreign List during this pod's Allocate lost its devices."""
        for (holder, _), devices in self.held.items():
            if holder == uid:
                self.allocated -= devices

    def prestart(self, uid: str, container: str) -> None:
        """Ask before a start; raises grpc.RpcError with the refusal."""
        devices = self._shuffled(self.held[uid, container])
        request = dp.PreStartContainerRequest(devices_ids=devices)
        resource = next(one.resource for one in self.pods[uid].containers if one.name == container)
        self._current[resource].stub.PreStartContainer(request, timeout=30)

    def devices_of(self, uid: str) -> set[str]:
        """Every device of a pod."""
        return {device for (holder, _), devices in self.held.items() if holder == uid for device in devices}

    def _allocate(self, pod: FakePod, container: FakeContainer, reusable: set[str]) -> None:
        if not container.gpus or not (self.lists.get(container.resource) or self.allocated):
            return  # a resource that was never registered is skipped
        if (pod.uid, container.name) in self.held:
            return  # kept from before a restart
        self.update_allocated()
        devices = self._choose(container, reusable)
        request = dp.AllocateRequest(
            container_requests=[dp.ContainerAllocateRequest(devices_ids=self._shuffled(devices))]
        )
        try:
            answer = self._plugin(container.resource).stub.Allocate(request)
        except grpc.RpcError as error:
            self.allocated = {device for held in self.held.values() for device in held}
            raise AdmissionError(f"Allocate failed due to {error.details()}") from error
        with self._lock:
            self.held[pod.uid, container.name] = devices
            self._named[pod.uid, container.name] = container.resource
        self.answers[pod.uid, container.name] = answer.container_responses[0]
        self.write_checkpoint()

    def _choose(self, container: FakeContainer, reusable: set[str]) -> set[str]:
        size, resource = container.gpus, container.resource
        known = self.lists.get(resource, {})
        healthy = {device.ID for device in known.values() if device.health == "Healthy"}
        reusable = reusable & known.keys()
        if not healthy:
            raise AdmissionError("no healthy devices present")
        chosen = set(sorted(reusable)[:size])
        self.allocated |= chosen
        if len(chosen) == size:
            return chosen
        available = healthy - self.allocated
        if len(available) < size - len(chosen):
            raise AdmissionError(
                f"requested number of devices unavailable. Requested: {size}, Available: {len(available)}"
            )
        preferred: set[str] = set()
        plugin = self._plugin(resource)
        if self.asks_for_preferences and plugin.options.get_preferred_allocation_available:
            preferred = self._preferred(plugin, (available, chosen, size)) & available
        spare = self._shuffled(available - preferred)
        more = [*sorted(preferred), *spare][: size - len(chosen)]
        self.allocated |= set(more)
        return chosen | set(more)

    def _preferred(self, plugin: _Endpoint, demand: tuple[set[str], set[str], int]) -> set[str]:
        free, chosen, size = demand
        available = free | chosen
        self.available.append(set(available))
        request = dp.PreferredAllocationRequest(
            container_requests=[
                dp.ContainerPreferredAllocationRequest(
                    available_deviceIDs=self._shuffled(available),
                    must_include_deviceIDs=self._shuffled(chosen),
                    allocation_size=size,
                )
            ]
        )
        try:
            answer = plugin.stub.GetPreferredAllocation(request)
        except grpc.RpcError as error:
            raise AdmissionError(f"GetPreferredAllocation failed with {error.details()}") from error
        return set(answer.container_responses[0].deviceIDs)

    def _plugin(self, resource: str) -> _Endpoint:
        if resource not in self._current:
            raise AdmissionError("endpoint has been stopped")
        return self._current[resource]

    def update_allocated(self) -> None:
        """Free the devices of pods that are not active any more; List does it, too."""
        active = {uid for uid, pod in self.pods.items() if pod.phase not in TERMINAL}
        if self.initializing or {uid for uid, _ in self.held} <= active:
            return
        self.held = {place: devices for place, devices in self.held.items() if place[0] in active}
        self.allocated = {device for devices in self.held.values() for device in devices}

    def _shuffled(self, devices: set[str]) -> list[str]:
        """In an order of no meaning, as Go's maps have it, but the same one in every run."""
        return sorted(devices, key=lambda device: hashlib.sha256(device.encode()).digest())

    # --- the checkpoint -----------------------------------------------------------------------------------

    @property
    def checkpoint(self) -> Path:
        """The file."""
        return self.plugins / "kubelet_internal_checkpoint"

    def write_checkpoint(self) -> None:
        """Put the truth, or what ``damaged_checkpoint`` says, on the disk."""
        with self._lock:
            entries = [
                {
                    "PodUID": uid,
                    "ContainerName": container,
                    "ResourceName": self._named.get((uid, container), GPU),
                    "DeviceIDs": {"-1": sorted(devices)},
                    "AllocResp": "",
                }
                for (uid, container), devices in self.held.items()
            ]
            registered = {
                resource: sorted(uuid for uuid, device in devices.items() if device.health == "Healthy")
                for resource, devices in self.lists.items()
            }
            data = {"PodDeviceEntries": entries or None, "RegisteredDevices": registered}
            unfinished = self.checkpoint.with_suffix(".tmp")
            unfinished.write_text(self.damaged_checkpoint or json.dumps({"Data": data, "Checksum": 1}))
            unfinished.replace(self.checkpoint)

    def _read_checkpoint(self) -> None:
        if not self.checkpoint.exists():
            return
        entries = json.loads(self.checkpoint.read_text())["Data"]["PodDeviceEntries"] or []
        self.held = {
            (entry["PodUID"], entry["ContainerName"]): {i for ids in entry["DeviceIDs"].values() for i in ids}
            for entry in entries
        }
        self._named = {(one["PodUID"], one["ContainerName"]): one["ResourceName"] for one in entries}
        self.allocated = {device for devices in self.held.values() for device in devices}

    def _serve(self, path: Path, add: object, servicer: object) -> None:
        path.unlink(missing_ok=True)
        server = grpc.server(ThreadPoolExecutor(8))
        assert callable(add)
        add(servicer, server)
        server.add_insecure_port(f"unix:{path}")
        server.start()
        self._servers.append(server)


class _Pods(pods_api_grpc.PodsServicer):
    def __init__(self, kubelet: FakeKubelet) -> None:
        self._kubelet = kubelet

    def ListPods(
        self, request: pods_api.ListPodsRequest, context: grpc.ServicerContext
    ) -> pods_api.ListPodsResponse:
        """Pods, unless initializing or flooded."""
        del request
        self._kubelet.calls.append("ListPods")
        if self._kubelet.initializing:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "Kubelet is initializing")
        if self._kubelet.flooded:
            self._kubelet.flooded -= 1
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        return pods_api.ListPodsResponse(pods=[pod.marshal() for pod in self._kubelet.pods.values()])

    def GetPod(
        self, request: pods_api.GetPodRequest, context: grpc.ServicerContext
    ) -> pods_api.GetPodResponse:
        """One pod by uid."""
        if (pod := self._kubelet.pods.get(request.podUID)) is None:
            context.abort(grpc.StatusCode.NOT_FOUND, "pod not found")
            raise AssertionError
        return pods_api.GetPodResponse(pod=pod.marshal())


class _Resources(resources_api_grpc.PodResourcesListerServicer):
    def __init__(self, kubelet: FakeKubelet) -> None:
        self._kubelet = kubelet

    def List(
        self, request: resources_api.ListPodResourcesRequest, context: grpc.ServicerContext
    ) -> resources_api.ListPodResourcesResponse:
        """Names of active pods; frees devices of ended ones on the way."""
        del request, context
        self._kubelet.calls.append("List")
        self._kubelet.update_allocated()
        return resources_api.ListPodResourcesResponse(
            pod_resources=[
                resources_api.PodResources(name=pod.name, namespace=pod.namespace)
                for pod in self._kubelet.pods.values()
                if pod.phase not in TERMINAL or not self._kubelet.lists_active_pods
            ]
        )
