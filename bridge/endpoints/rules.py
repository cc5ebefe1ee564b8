"""The rules of a tenant, for its admins: the list, adding, taking out, a dry run."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from bridge import dry_run, rules
from bridge.endpoints import SIGNED_IN, Admin, TheRelay, rule_shapes, shapes
from bridge.endpoints.body import StrictRoute
from bridge.protocol.jsonrpc import Payload

router = APIRouter(
    prefix="/api/rules",
    route_class=StrictRoute,
    tags=["rules"],
    dependencies=SIGNED_IN,
    responses={
        400: {"model": shapes.Failure, "description": "the request is not well formed"},
        401: {"model": shapes.Failure, "description": "nobody is signed in"},
        403: {"model": shapes.Failure, "description": "the role does not allow it"},
        503: {"model": shapes.Failure, "description": "the store does not answer"},
        **shapes.ANY_FAILURE,
    },
)


@router.get("", response_model=rule_shapes.Rules, response_model_exclude_none=True)
async def listed(relay: TheRelay, admin: Admin) -> Payload:
    """List the rules in their order: the first that is about a question decides."""
    return (await relay.rules.of(admin.tenant)).as_json()


@router.post("", status_code=201, response_model=rule_shapes.Rule, response_model_exclude_none=True)
async def add(relay: TheRelay, admin: Admin, body: rule_shapes.NewRule) -> Payload:
    """Put a rule at a place of the list, else at its end."""
    rule = rules.made(_fields(body), admin.origin, await relay.store.time_ms())
    return rules.rule_json(await relay.rules.add(admin.tenant, rule, body.position))


@router.delete(
    "/{id}",
    status_code=204,
    responses={404: {"model": shapes.Failure, "description": "there is no such rule"}},
)
async def remove(
    relay: TheRelay,
    admin: Admin,
    rule_id: Annotated[str, Path(alias="id", description="the rule's id")],
) -> Response:
    """Take a rule out."""
    await relay.rules.remove(admin.tenant, rule_id, admin.origin)
    return Response(status_code=204)


@router.post("/dry-run", response_model=rule_shapes.DryRun, response_model_exclude_none=True)
async def try_out(relay: TheRelay, admin: Admin, body: rule_shapes.RulesTried) -> Payload:
    """Tell which questions of the last day rules would have decided, and how; changes nothing."""
    now = await relay.store.time_ms()
    if body.rules is None:
        tried = (await relay.rules.of(admin.tenant)).rules
    else:
        tried = [rules.made(_fields(one), admin.origin, now) for one in body.rules]
    return await dry_run.of(relay.round_trips, admin.tenant, tried)


def _fields(body: rule_shapes.RuleWish) -> Payload:
    return body.model_dump(exclude_none=True, exclude={"position"})
