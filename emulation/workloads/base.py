"""What a workload is made of."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Operation(BaseModel):
    """One thing a client does at a node: the workload is a list of these.

    `filter` holds predicates as (attribute, operator, value); `subscription` numbers a client's
    subscriptions at one node; `sequence` numbers a node's publications, from 1.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    time: float = Field(ge=0)
    node: int
    action: Literal["subscribe", "unsubscribe", "publish"]
    subscription: int = 0
    filter: tuple[tuple[str, str, Any], ...] = ()
    client_attributes: dict[str, Any] = {}
    sequence: int = 0
    event: dict[str, Any] = {}
    policy: tuple[tuple[str, str, Any], ...] = ()
    size: int = Field(0, ge=0, le=60_000, description="bytes of the event; padded up to this")
