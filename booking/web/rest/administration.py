"""What administrators do, by REST: maintenance, exemptions, evictions, GPUs; and what they read."""

from http import HTTPStatus

import msgspec

from booking.web.interfaces import Parts
from booking.web.rest.idempotency_keys import key_of
from booking.web.rest.requests import (
    BlockBody,
    EndBody,
    EvictionBody,
    ExemptionBody,
    GpuOrderBody,
    WhichAudit,
    WhichExemptions,
    WhichPage,
)
from booking.web.rest.responses import (
    AddedBlock,
    AtRisk,
    AuditPage,
    BlockPage,
    DeniedPage,
    Eviction,
    ExemptionPage,
    GpuOrdered,
)
from booking.web.rest.routes import Nothing, ReadRequest, Reply


class AdministrationViews:
    """One method per verb."""

    def __init__(self, parts: Parts) -> None:
        self._bookings = parts.bookings
        self._unknown_capacity = parts.unknown_capacity

    def blocks(self, asked: ReadRequest[WhichPage, Nothing]) -> Reply:
        """``GET /admin/blocks``."""
        page = self._bookings.block_page(asked.who, after=asked.query.after, limit=asked.query.limit)
        return Reply(body=BlockPage(blocks=page.entries, following=page.following))

    def add_block(self, asked: ReadRequest[Nothing, BlockBody]) -> Reply:
        """``POST /admin/blocks``."""
        body = asked.body.made()
        block = self._bookings.add_block(
            asked.who,
            node=body.node,
            start=body.start,
            end=body.end,
            reason=body.reason,
            model=body.model,
            count=body.count,
            key=key_of(asked),
        )
        affected = () if self._unknown_capacity() else self._bookings.affected(block)
        at_risk = tuple(
            AtRisk(id=one.id, user=one.user, model=one.model, count=one.count, start=one.start, end=one.end)
            for one in affected
        )
        answer = AddedBlock(**msgspec.structs.asdict(block), at_risk=at_risk)
        return Reply(body=answer, status=HTTPStatus.CREATED)

    def remove_block(self, asked: ReadRequest[Nothing, EndBody]) -> Reply:
        """``DELETE /admin/blocks/{id}``."""
        reason = asked.body.made().reason
        block, key = asked.path["id"], key_of(asked)
        return Reply(body=self._bookings.remove_block(asked.who, block, reason=reason, key=key))

    def exemptions(self, asked: ReadRequest[WhichExemptions, Nothing]) -> Reply:
        """``GET /admin/exemptions``."""
        which = asked.query
        page = self._bookings.exemptions(asked.who, user=which.user, after=which.after, limit=which.limit)
        return Reply(body=ExemptionPage(exemptions=page.entries, following=page.following))

    def add_exemption(self, asked: ReadRequest[Nothing, ExemptionBody]) -> Reply:
        """``POST /admin/exemptions``."""
        body = asked.body.made()
        exemption = self._bookings.add_exemption(
            asked.who,
            user=body.user,
            start=body.start,
            end=body.end,
            limits=body.limits,
            reason=body.reason,
            model=body.model,
            key=key_of(asked),
        )
        return Reply(body=exemption, status=HTTPStatus.CREATED)

    def remove_exemption(self, asked: ReadRequest[Nothing, EndBody]) -> Reply:
        """``DELETE /admin/exemptions/{id}``."""
        reason = asked.body.made().reason
        exemption, key = asked.path["id"], key_of(asked)
        return Reply(body=self._bookings.remove_exemption(asked.who, exemption, reason=reason, key=key))

    def audit(self, asked: ReadRequest[WhichAudit, Nothing]) -> Reply:
        """``GET /admin/audit``."""
        which = asked.query
        page = self._bookings.audit(
            asked.who, subject=which.subject, actor=which.actor, after=which.after, limit=which.limit
        )
        return Reply(body=AuditPage(audit=tuple(page.entries), following=page.following))

    def denied(self, asked: ReadRequest[WhichPage, Nothing]) -> Reply:
        """``GET /admin/denied``."""
        page = self._bookings.denied(asked.who, after=asked.query.after, limit=asked.query.limit)
        return Reply(body=DeniedPage(denied=tuple(page.entries), following=page.following))

    def evict(self, asked: ReadRequest[Nothing, EvictionBody]) -> Reply:
        """``POST /admin/evictions``."""
        body = asked.body.made()
        self._bookings.evict(asked.who, body.namespace, body.pod, body.reason, key=key_of(asked))
        answer = Eviction(namespace=body.namespace, pod=body.pod, reason=body.reason)
        return Reply(body=answer, status=HTTPStatus.ACCEPTED)

    def order_gpu(self, asked: ReadRequest[Nothing, GpuOrderBody]) -> Reply:
        """``POST /admin/gpu-orders``."""
        body = asked.body.made()
        uuid = self._bookings.order_gpu(
            asked.who, body.node, body.gpu, order=body.order, reason=body.reason, key=key_of(asked)
        )
        answer = GpuOrdered(node=body.node, gpu=uuid, order=body.order, reason=body.reason)
        return Reply(body=answer, status=HTTPStatus.ACCEPTED)
