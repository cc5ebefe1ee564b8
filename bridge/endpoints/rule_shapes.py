"""The JSON bodies of the rules, as OpenAPI shows them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bridge.endpoints.shapes import By, Shape
from bridge.rule_match import WAIT_SECONDS

Action = Literal["allow", "deny", "ask", "two_people", "passkey", "expire", "escalate"]
Patterns = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=300)]], Field(max_length=50)
]


class Match(Shape):
    """What a question must be like; each list that is not empty must fit."""

    tools: Patterns = Field(default=[], description="kinds of tool: execute, edit, …")
    paths: Patterns = Field(default=[], description="globs; * goes across folders")
    commands: Patterns = Field(default=[], description='first words of a program: "git push"')
    agents: Patterns = Field(default=[], description="names or ids")
    hosts: Patterns = Field(default=[], description="names of machines")
    sessions: Patterns = Field(default=[], description="ids of sessions")
    risks: Patterns = Field(default=[], description="low, medium, high")


class RuleWish(Shape):
    """A rule that is to be tried."""

    match: Match
    action: Action
    seconds: Annotated[int, Field(ge=0, le=WAIT_SECONDS)] = Field(
        default=0, description="of expire and escalate"
    )
    note: Annotated[str, Field(max_length=500)] = ""


class NewRule(RuleWish):
    """A rule that is to hold."""

    position: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="how many rules stand before it; else it is the last"
    )


class Rule(RuleWish):
    """A rule that holds; the first that is about a question decides."""

    id: str
    words: str = Field(description="the rule as a sentence")
    by: By
    at: str


class Rules(Shape):
    """The rules of the tenant, in their order."""

    version: str
    rules: list[Rule]


class RulesTried(Shape):
    """Rules to be tried; without any, those that hold."""

    rules: Annotated[list[RuleWish], Field(max_length=200)] | None = None


class Would(Shape):
    """What a rule would have done with one question."""

    id: str
    session_id: str
    agent: str
    title: str
    risk: str
    asked_at: str
    rule: str
    action: Action
    words: str
    was: str = Field(description="allowed, denied, how it ended otherwise, or open")


class DryRun(Shape):
    """What rules would have done with the questions of the last day."""

    questions: list[Would]
    counts: dict[str, int] = Field(description="by action")
    of: int = Field(description="how many questions were looked at")
    hours: int
