"""Administration by REST: maintenance, exemptions, evictions, GPUs, audit and refused requests."""

from http import HTTPStatus

import msgspec

from booking.server.web.interfaces import Parts
from booking.server.web.problems import unavailable
from booking.server.web.rest.idempotency_keys import key_of
from booking.server.web.rest.requests import (
    BlockBody,
    DryRun,
    EndBody,
    EvictionBody,
    ExemptionBody,
    GpuOrderBody,
    WhichAudit,
    WhichExemptions,
    WhichPage,
)
from booking.server.web.rest.responses import (
    AddedBlock,
    AtRisk,
    AuditPage,
    BlockPage,
    DeniedPage,
    Eviction,
    ExemptionPage,
    GpuOrdered,
    WouldEvict,
    WouldOrderGpu,
    WouldRevoke,
    WouldUnblock,
    would_block,
    would_exempt,
)
from booking.server.web.rest.routes import Nothing, ReadRequest, Reply


class AdministrationViews:
    """The routes below ``/admin``, one method for each."""

    def __init__(self, parts: Parts) -> None:
        self._bookings = parts.bookings
        self._unknown_capacity = parts.unknown_capacity

    def blocks(self, call: ReadRequest[WhichPage, Nothing]) -> Reply:
        """``GET /admin/blocks``."""
        page = self._bookings.block_page(call.who, after=call.query.after, limit=call.query.limit)
        return Reply(body=BlockPage(blocks=page.entries, following=page.following))

    def add_block(self, call: ReadRequest[DryRun, BlockBody]) -> Reply:
        """``POST /admin/blocks``."""
        body, dry_run = call.body.made(), call.query.dry_run
        block = self._bookings.add_block(
            call.who,
            node=body.node,
            start=body.start,
            end=body.end,
            reason=body.reason,
            model=body.model,
            count=body.count,
            key=key_of(call),
            dry_run=dry_run,
        )
        unknown = self._unknown_capacity()
        if unknown and dry_run:
            raise unavailable(f"Nobody can say now which bookings it would put at risk. {unknown}")
        affected = () if unknown else self._bookings.affected(block)
        at_risk = tuple(
            AtRisk(
                id=one.id,
                user=one.user,
                model=one.model,
                count=one.count,
                memory=one.memory,
                start=one.start,
                end=one.end,
            )
            for one in affected
        )
        if dry_run:
            return Reply(body=would_block(block, at_risk))
        answer = AddedBlock(**msgspec.structs.asdict(block), at_risk=at_risk)
        return Reply(body=answer, status=HTTPStatus.CREATED)

    def remove_block(self, call: ReadRequest[DryRun, EndBody]) -> Reply:
        """``DELETE /admin/blocks/{id}``."""
        reason, dry_run = call.body.made().reason, call.query.dry_run
        block = self._bookings.remove_block(
            call.who, call.path["id"], reason=reason, key=key_of(call), dry_run=dry_run
        )
        return Reply(body=WouldUnblock(**msgspec.structs.asdict(block), dry_run=True) if dry_run else block)

    def exemptions(self, call: ReadRequest[WhichExemptions, Nothing]) -> Reply:
        """``GET /admin/exemptions``."""
        which = call.query
        page = self._bookings.exemptions(call.who, user=which.user, after=which.after, limit=which.limit)
        return Reply(body=ExemptionPage(exemptions=page.entries, following=page.following))

    def add_exemption(self, call: ReadRequest[DryRun, ExemptionBody]) -> Reply:
        """``POST /admin/exemptions``."""
        body, dry_run = call.body.made(), call.query.dry_run
        exemption = self._bookings.add_exemption(
            call.who,
            user=body.user,
            start=body.start,
            end=body.end,
            limits=body.limits,
            reason=body.reason,
            model=body.model,
            key=key_of(call),
            dry_run=dry_run,
        )
        if dry_run:
            return Reply(body=would_exempt(exemption))
        return Reply(body=exemption, status=HTTPStatus.CREATED)

    def remove_exemption(self, call: ReadRequest[DryRun, EndBody]) -> Reply:
        """``DELETE /admin/exemptions/{id}``."""
        reason, dry_run = call.body.made().reason, call.query.dry_run
        ended = self._bookings.remove_exemption(
            call.who, call.path["id"], reason=reason, key=key_of(call), dry_run=dry_run
        )
        return Reply(body=WouldRevoke(**msgspec.structs.asdict(ended), dry_run=True) if dry_run else ended)

    def audit(self, call: ReadRequest[WhichAudit, Nothing]) -> Reply:
        """``GET /admin/audit``."""
        which = call.query
        page = self._bookings.audit(
            call.who, subject=which.subject, actor=which.actor, after=which.after, limit=which.limit
        )
        return Reply(body=AuditPage(audit=tuple(page.entries), following=page.following))

    def denied(self, call: ReadRequest[WhichPage, Nothing]) -> Reply:
        """``GET /admin/denied``."""
        page = self._bookings.denied(call.who, after=call.query.after, limit=call.query.limit)
        return Reply(body=DeniedPage(denied=tuple(page.entries), following=page.following))

    def evict(self, call: ReadRequest[DryRun, EvictionBody]) -> Reply:
        """``POST /admin/evictions``."""
        body, key = call.body.made(), key_of(call)
        answer = Eviction(namespace=body.namespace, pod=body.pod, reason=body.reason)
        if call.query.dry_run:
            pod = self._bookings.dry_run_evict(call.who, body.namespace, body.pod, body.reason)
            fields = {**msgspec.structs.asdict(answer), **msgspec.structs.asdict(pod)}
            return Reply(body=WouldEvict(**fields, dry_run=True))
        self._bookings.evict(call.who, body.namespace, body.pod, body.reason, key=key)
        return Reply(body=answer, status=HTTPStatus.ACCEPTED)

    def order_gpu(self, call: ReadRequest[DryRun, GpuOrderBody]) -> Reply:
        """``POST /admin/gpu-orders``."""
        body, dry_run = call.body.made(), call.query.dry_run
        uuid = self._bookings.order_gpu(
            call.who,
            body.node,
            body.gpu,
            order=body.order,
            reason=body.reason,
            key=key_of(call),
            dry_run=dry_run,
        )
        answer = GpuOrdered(node=body.node, gpu=uuid, order=body.order, reason=body.reason)
        if dry_run:
            return Reply(body=WouldOrderGpu(**msgspec.structs.asdict(answer), dry_run=True))
        return Reply(body=answer, status=HTTPStatus.ACCEPTED)
