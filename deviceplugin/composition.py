"""How the agent gives out GPUs on its node, put together by the settings and the Node's label.

A part of the composition root: adapters are chosen here and in ``__main__`` alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from cluster import claim_names, names
from cluster.kube.interface import Kube
from cluster.objects.inventory import OWNER_WAITS
from cluster.process.clock import Clock
from deviceplugin.advertised import AdvertisingOptions
from deviceplugin.allocator import Allocator, AllocatorSources, first_devices
from deviceplugin.beside.choice import at_start
from deviceplugin.beside.holdings import Holdings
from deviceplugin.beside.observer import Observer
from deviceplugin.beside.opening import Opening
from deviceplugin.beside.owner import Way
from deviceplugin.beside.role import Role
from deviceplugin.device_cache import DeviceCache
from deviceplugin.dra.allocated import AllocatedClaims
from deviceplugin.dra.checks import Examined
from deviceplugin.dra.neighbours import Neighbours
from deviceplugin.dra.orphans import orphans
from deviceplugin.dra.prepared import PreparedClaim, PreparedFile
from deviceplugin.dra.registration import Endpoints as ClaimEndpoints
from deviceplugin.dra.serving import (
    ClaimServing,
    ClaimSharing,
    claimed_parts,
    has_claims,
    held_by_claims,
    prepared_file,
)
from deviceplugin.dra.slice_publisher import foreign_slices
from deviceplugin.injection.driver import Mount
from deviceplugin.injection.host_cdi_files import HostFolders
from deviceplugin.injection.mps_daemons import MpsDaemons
from deviceplugin.injection.share_files import ShareFiles
from deviceplugin.kubelet.apiserver_pods import ApiServerPods
from deviceplugin.kubelet.checkpoint import CheckpointFile
from deviceplugin.kubelet.claim_users import ClaimUsers
from deviceplugin.kubelet.pod_access import PodAccess
from deviceplugin.kubelet.pod_resources import PodResources
from deviceplugin.kubelet.pods_api import PodsApi
from deviceplugin.kubelet.registration import Endpoints, Registrar, SocketNames
from deviceplugin.kubelet.registrations import Registrations
from deviceplugin.kubelet.root_in_use import root_in_use
from deviceplugin.kubelet.second_plugin import GIVES_NO_CLAIMS, OtherPlugin, none_is_there
from deviceplugin.metrics import AgentMetrics
from deviceplugin.nvml.numa import pcie_root_from_sysfs
from deviceplugin.plugin import DevicePlugin
from deviceplugin.preparation import Folders, Preparation
from deviceplugin.process.loop_watchdog import WatchedClock
from deviceplugin.settings import Settings
from deviceplugin.usage.claimed import ClaimedPart


def role_of(
    settings: Settings,
    kube: Kube,
    sources: AllocatorSources,
    sockets: SocketNames,
    *,
    metrics: AgentMetrics,
    rounds: Mapping[str, WatchedClock],
    clock: Clock,
) -> Role:
    """What the agent does on its node: it gives out the GPUs, or observes how another plugin does."""
    way = at_start(kube, settings.node_name, settings.device_plugin, holdings(settings, sources, kube).held)
    daemons = MpsDaemons(settings.mps_root, clock)
    serving = partial(_claims, settings, sources, sockets, kube=kube, clock=clock)
    closed = OWNER_WAITS if way.waits else None
    mounts = _folders(settings).mounts
    if way.whose == "existing":
        role = _observing(settings, way, sources, metrics=metrics, clock=rounds["preparation"], closed=closed)
    else:
        by_claims = way.whose == "dra"
        neighbours = Neighbours(_beside_claims(settings, sources, metrics) if by_claims else none_is_there)
        preparation = _preparation(
            settings,
            sources,
            metrics,
            by_claims=by_claims,
            closed=lambda: closed or neighbours(),
            daemons=daemons,
            clock=rounds["preparation"],
        )
        mounts = preparation.mounts
        registrations = _registrations(
            settings, sources, sockets, metrics, daemons=daemons, clock=rounds["resources"]
        )
        resources = Registrations(sources.device_cache, registrations, rounds["resources"])
        access = _pod_access(settings, sources, clock)
        other = _other_plugin(settings, sources.device_cache)
        role = Role.giving(preparation, resources, sources, access, way=way, other_plugin=other)
        if by_claims:
            claims = serving(mounts=mounts, is_waiting=closed is not None, neighbours=neighbours)
            return role.by(claims, neighbours)
    return role.ending(serving(mounts=mounts, is_ending=True)) if has_claims(_prepared(settings)) else role


def holdings(settings: Settings, sources: AllocatorSources, kube: Kube) -> Holdings:
    """What is held on the node."""
    allocated = AllocatedClaims(
        kube,
        ApiServerPods(kube, settings.node_name),
        node=settings.node_name,
        driver=settings.dra_driver,
    )
    return Holdings(
        record=_prepared(settings),
        checkpoint=sources.checkpoint,
        pods=sources.pods.at_once,
        allocated=allocated,
        lost=_lost(settings, kube),
    )


def _lost(settings: Settings, kube: Kube) -> Callable[[], list[PreparedClaim]]:
    state = settings.kubelet_state or settings.kubelet_root
    return partial(
        orphans, _prepared(settings), state, kube, driver=settings.dra_driver, node=settings.node_name
    )


def examined(settings: Settings, kube: Kube) -> Examined:
    """What the doctor looks at about claims."""
    endpoints = ClaimEndpoints(
        kubelet_root=settings.kubelet_root, driver=settings.dra_driver, names=SocketNames("doctor", 0)
    )
    return Examined(
        registry=endpoints.registry,
        record=_prepared(settings),
        foreign=partial(foreign_slices, kube, settings.node_name, settings.dra_driver),
        orphans=_lost(settings, kube),
    )


def claimed_devices(settings: Settings) -> Callable[[], frozenset[str] | None]:
    """Returns the UUIDs of devices that claims have on this node; None if that is not known."""
    return partial(held_by_claims, _prepared(settings))


def claims_in_use(settings: Settings) -> Callable[[], tuple[ClaimedPart, ...] | None]:
    """Returns what claims have of the devices, and which pods use them; None if that is not known."""
    users = ClaimUsers(settings.kubelet_state or settings.kubelet_root)
    return partial(claimed_parts, _prepared(settings), users)


def opening(settings: Settings) -> Opening | None:
    """How GPUs that another plugin gives out are offered to pods that share them; None if they are not."""
    if not settings.sharing_reservation_pods or not settings.sharing_slots:
        return None
    return Opening(
        slots=settings.sharing_slots, reserve=settings.sharing_reserve_mib, own_dev=settings.own_dev_root
    )


def _observing(
    settings: Settings,
    way: Way,
    sources: AllocatorSources,
    *,
    metrics: AgentMetrics,
    clock: Clock,
    closed: str | None,
) -> Role:
    return Role.observing(
        way,
        Observer(
            settings.node_name,
            sources.device_cache,
            checkpoint=CheckpointFile(settings.device_plugins, names.GPU_RESOURCE),
            pods=sources.pods.at_once,
            metrics=metrics,
            clock=clock,
            opening=opening(settings),
            closed=closed,
        ),
    )


def _other_plugin(settings: Settings, device_cache: DeviceCache) -> OtherPlugin:
    return OtherPlugin(settings.device_plugins, lambda: frozenset(device_cache.now.by_uuid))


def _beside_claims(
    settings: Settings, sources: AllocatorSources, metrics: AgentMetrics
) -> Callable[[], str | None]:
    other = OtherPlugin(
        settings.device_plugins,
        lambda: frozenset(sources.device_cache.now.by_uuid),
        effect=GIVES_NO_CLAIMS,
    )

    def look() -> str | None:
        found = other()
        metrics.other_plugin.set(found is not None)
        return found

    return look


def _preparation(
    settings: Settings,
    sources: AllocatorSources,
    metrics: AgentMetrics,
    *,
    by_claims: bool,
    closed: Callable[[], str | None],
    daemons: MpsDaemons,
    clock: Clock,
) -> Preparation:
    way = AdvertisingOptions(
        strategy=settings.device_list_strategy,
        mig=settings.mig_strategy,
        slots=settings.sharing_slots,
        reserve=settings.sharing_reserve_mib,
    )
    return Preparation(
        sources.device_cache,
        AdvertisingOptions.of_claims(
            settings.device_list_strategy,
            bookable=settings.book_claims,
            slots=settings.sharing_slots if settings.dra_shares else 0,
            reserve=settings.sharing_reserve_mib,
        )
        if by_claims
        else way,
        _folders(settings),
        checkpoint=sources.checkpoint,
        pods=sources.pods.at_once,
        claimed=claimed_devices(settings),
        closed=closed,
        host=HostFolders(settings.host_cdi_dirs),
        daemons=daemons,
        metrics=metrics,
        clock=clock,
    )


def _pod_access(settings: Settings, sources: AllocatorSources, clock: Clock) -> PodAccess:
    return PodAccess(
        (PodsApi(settings.pods_api_socket, clock), PodResources(settings.pod_resources_socket)),
        sources.checkpoint,
        clock,
        root=settings.kubelet_root,
        root_in_use=partial(root_in_use, settings.proc_root),
    )


def _registrations(
    settings: Settings,
    sources: AllocatorSources,
    sockets: SocketNames,
    metrics: AgentMetrics,
    *,
    daemons: MpsDaemons,
    clock: Clock,
) -> Callable[[str], Registrar]:
    def registration(resource: str) -> Registrar:
        checkpoint = CheckpointFile(settings.device_plugins, resource)
        pick = first_devices if resource == names.SHARED_RESOURCE else sources.pick
        ours = replace(sources, resource=resource, checkpoint=checkpoint, pick=pick)
        admission = Allocator(ours, metrics=metrics, clock=clock)
        plugin = partial(
            DevicePlugin,
            admission,
            sources.device_cache,
            resource=resource,
            strategy=settings.device_list_strategy,
            shares=ShareFiles(settings.cdi_dir),
            daemons=daemons,
            hook=settings.sharing_hook,
            clock=clock,
        )
        endpoints = Endpoints(folder=settings.device_plugins, resource=resource, names=sockets)
        other = _other_plugin(settings, sources.device_cache)
        return Registrar(endpoints, plugin, metrics=metrics, clock=clock, other_plugin=other)

    return registration


def _claims(
    settings: Settings,
    sources: AllocatorSources,
    sockets: SocketNames,
    *,
    kube: Kube,
    clock: Clock,
    mounts: Callable[[], tuple[Mount, ...]],
    is_ending: bool = False,
    is_waiting: bool = False,
    neighbours: Neighbours | None = None,
) -> ClaimServing:
    folders = _folders(settings)
    return ClaimServing(
        ClaimEndpoints(kubelet_root=settings.kubelet_root, driver=settings.dra_driver, names=sockets),
        sources,
        kube,
        node=settings.node_name,
        kubelet_state=settings.kubelet_state or settings.kubelet_root,
        cdi=settings.cdi_dir,
        specification=lambda nodes, more: folders.specification(
            nodes, mounts(), claim_names.CLAIM_CDI_KIND, more
        ),
        file=_prepared(settings),
        clock=clock,
        sharing=ClaimSharing(
            is_offered=settings.dra_shares, reserve=settings.sharing_reserve_mib, hook=settings.sharing_hook
        ),
        has_counters=settings.dra_counters,
        is_ending=is_ending,
        is_waiting=is_waiting,
        neighbours=neighbours,
        root_of=pcie_root_from_sysfs(settings.sys_root),
    )


def _prepared(settings: Settings) -> PreparedFile:
    return prepared_file(settings.kubelet_root, settings.dra_driver, settings.proc_root)


def _folders(settings: Settings) -> Folders:
    return Folders(
        cdi=settings.cdi_dir,
        dev_root=settings.dev_root,
        host_dev_root=settings.host_dev_root or settings.dev_root,
        driver_root=settings.driver_root,
        host_driver_root=settings.host_driver_root or settings.driver_root,
        capabilities=settings.mig_capabilities,
    )
