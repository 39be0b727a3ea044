"""Faults that tests inject: rules that delay an answer, replace it by an error, or cut the connection."""

import asyncio
from dataclasses import dataclass, field

from dradriver.cluster.apiserver.status import StatusError

_REASONS = {
    401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired", 422: "Invalid",
    429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


@dataclass(slots=True)
class Fault:
    """One rule. For each request, the first matching rule is used. A rule is used `count` times.

    Attributes:
        verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or "" for all.
        resource: plural name, with the subresource after a slash (`resourceclaims/status`), or "" for all.
        code: HTTP status of the answer; 0 lets the request through (after the wait).
        delay: seconds to wait before the request is carried out.
        until: event to wait for before the request is carried out.
        drop: whether to cut the connection without an answer; a watch is cut before its first event.
        after: number of events after which a watch is cut; -1: it is never cut. Only for watches.
        retry_after: seconds in the `Retry-After` header of the answer.
        count: number of further requests to which the rule applies; -1 for all.
        applied: whether the request is carried out before the fault occurs, so that only the answer is lost.
    """

    verb: str = ""
    resource: str = ""
    code: int = 0
    delay: float = 0.0
    until: asyncio.Event | None = None
    drop: bool = False
    after: int = -1
    retry_after: int = 0
    count: int = 1
    applied: bool = False

    def error(self) -> StatusError:
        """Return the error for the client."""
        reason = _REASONS.get(self.code, "InternalError")
        return StatusError(self.code, reason, f"fault injected: {reason}", retry_after=self.retry_after)


@dataclass(slots=True)
class Faults:
    """The active rules. The first matching rule is used."""

    rules: list[Fault] = field(default_factory=list)

    def add(self, rule: Fault) -> Fault:
        """Add a rule after the existing rules.

        Args:
            rule: the rule; each match decreases its `count`.

        Returns:
            The rule, so that tests can read its remaining `count`.
        """
        self.rules.append(rule)
        return rule

    def clear(self) -> None:
        """Remove all rules."""
        self.rules.clear()

    def take(self, verb: str, resource: str) -> Fault | None:
        """Return the first rule that matches a request and decrement its count; None if no rule matches.

        Args:
            verb: the request's verb, such as `get` or `watch`.
            resource: plural name, with the subresource after a slash.
        """
        for rule in self.rules:
            if rule.count != 0 and rule.verb in {"", verb} and rule.resource in {"", resource}:
                rule.count -= 1 if rule.count > 0 else 0
                return rule
        return None
