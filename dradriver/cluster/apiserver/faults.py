"""Faults that tests inject: rules that delay an answer, replace it by an error, or cut the connection."""

from dataclasses import dataclass, field

from dradriver.cluster.apiserver.status import StatusError

_REASONS = {
    401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 410: "Expired", 422: "Invalid",
    429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip


@dataclass(slots=True)
class Fault:
    """One rule. The first rule that matches a request is used, `count` times.

    Attributes:
        verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or "" for any.
        resource: plural name, with the subresource after a slash (`resourceclaims/status`), or "" for any.
        code: HTTP status of the answer; 0 lets the request through (after the delay).
        delay: seconds to wait first.
        drop: cut the connection without an answer; a watch is cut before its first event.
        after: cut a watch after this many events (only for watches; -1 never).
        retry_after: seconds for `Retry-After`.
        count: number of remaining requests that it matches; -1 for all.
        applied: the request is carried out first, and then the fault occurs (a lost answer).
    """

    verb: str = ""
    resource: str = ""
    code: int = 0
    delay: float = 0.0
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
    """The rules in force, first match first."""

    rules: list[Fault] = field(default_factory=list)

    def add(self, rule: Fault) -> Fault:
        """Add a rule as the last one."""
        self.rules.append(rule)
        return rule

    def clear(self) -> None:
        """Remove all rules."""
        self.rules.clear()

    def take(self, verb: str, resource: str) -> Fault | None:
        """Return the rule that matches this request and decrement its count; None if no rule matches."""
        for rule in self.rules:
            if rule.count != 0 and rule.verb in {"", verb} and rule.resource in {"", resource}:
                rule.count -= 1 if rule.count > 0 else 0
                return rule
        return None
