"""What can go wrong, as a tree. Facts are attributes; the sentence is made from them.

PluggentError
+ ConfigError            .path .problems         a setting, a file or a flag is wrong
+ PluginError            .plugin .distribution
  - PluginLoadError      could not be imported, checked or opened     .cure
  - PluginIncompatible   made for another version of the contract
  - NameTaken            two plugins offer one name
  - HookError            .hook                   a hook failed while an operation ran
+ ProviderError          .kind .retryable .retry_after .status .meta
  - SubmissionInDoubt    a run or a batch may have begun, and its name is not known
+ ToolError              .tool .kind             raised by a tool for the model to read
+ MemoryStoreError       .kind .retryable
+ PlanParseError         .line .problems
+ Denied                 .by .reason .digest     a policy said no, outside a turn
+ LimitReached           .limit .value
+ SessionError           a session is used wrongly, damaged, or held by another writer
  - SessionOwnerError    .session_id .principal .claimed   a stored session belongs to another principal
  - SessionLeaseLost     .session_id .lease              another writer has taken the session over
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # attrs takes long to import, and errors need none of it
    from pluggent_hookspecs.reply_meta import ReplyMeta

__all__ = [
    "ConfigError", "Denied", "HookError", "LimitReached", "MemoryStoreError", "MemoryStoreErrorKind", "NameTaken",
    "PlanParseError", "PluggentError", "PluginError", "PluginIncompatible", "PluginLoadError", "ProviderError",
    "ProviderErrorKind", "SessionError", "SessionLeaseLost", "SessionOwnerError", "SubmissionInDoubt", "ToolError",
    "ToolErrorKind",
]  # fmt: skip


class PluggentError(Exception):
    """Base of everything that pluggent raises on purpose."""


class ConfigError(PluggentError):
    """Settings that cannot be used. Every problem of one input is named at once.

    ``path`` is the file or the place (``"--model"``, ``"PLUGGENT_MODEL"``) they came from.

    >>> print(ConfigError("pluggent.toml", ["[limits] tool_rounds: expected a number"]))
    pluggent.toml: [limits] tool_rounds: expected a number
    """

    def __init__(self, path: str, problems: Sequence[str]) -> None:
        self.path = path
        self.problems = tuple(problems)
        lines = self.problems if len(self.problems) == 1 else tuple(f"\n  {p}" for p in self.problems)
        super().__init__(f"{path}: {''.join(lines)}")


class PluginError(PluggentError):
    """Something is wrong with one plugin; ``distribution`` is its name and version."""

    def __init__(self, plugin: str, distribution: str, problem: str) -> None:
        self.plugin = plugin
        self.distribution = distribution
        self.problem = problem
        where = f" ({distribution})" if distribution and distribution != plugin else ""
        super().__init__(f"plugin '{plugin}'{where} {problem}")


class PluginLoadError(PluginError):
    """A plugin could not be imported, checked, configured or opened.

    ``cure`` is the last sentence of ``problem``: what to do about it. Empty where nothing is known.
    """

    def __init__(self, plugin: str, distribution: str, problem: str, *, cure: str = "") -> None:
        self.cure = cure
        super().__init__(plugin, distribution, f"{problem} {cure}" if cure else problem)


class PluginIncompatible(PluginError):  # noqa: N818 (the tree's name; it states what the plugin is)
    """A plugin requires another version of the contract than this host has."""


class NameTaken(PluginError):  # noqa: N818
    """Two plugins claim one name, so the name means neither."""


class HookError(PluginError):
    """A hook failed whose failure ends the operation: a transform, an around or a required observer."""

    def __init__(self, plugin: str, hook: str, problem: str) -> None:
        self.hook = hook
        super().__init__(plugin, "", f"{hook}: {problem}")


class ProviderErrorKind(StrEnum):
    """Why a model call failed, as far as a caller would do something different."""

    AUTHENTICATION = "authentication"
    """The key is missing, wrong, or may not use this model."""
    RATE_LIMITED = "rate_limited"
    """Too many requests, or the account has no credit left."""
    CONTEXT_LENGTH = "context_length"
    """The conversation is too long for the model."""
    REFUSED = "refused"
    """The server refuses this content."""
    BAD_REQUEST = "bad_request"
    """The server does not accept the request as it is."""
    UNAVAILABLE = "unavailable"
    """The server cannot be reached, or fails."""
    TIMEOUT = "timeout"
    """No answer in time."""
    STREAM_BROKEN = "stream_broken"
    """The reply broke off."""
    PROTOCOL = "protocol"
    """The reply is not in the form that it should have."""


_RETRYABLE = frozenset(
    {
        ProviderErrorKind.RATE_LIMITED,
        ProviderErrorKind.UNAVAILABLE,
        ProviderErrorKind.TIMEOUT,
        ProviderErrorKind.STREAM_BROKEN,
    }
)


class ProviderError(PluggentError):
    """A model could not be asked, or its answer could not be read.

    ``retry_after`` is in seconds, None if the server gave none. ``status`` is the HTTP
    status where there was one. ``actual`` and ``limit`` are token counts of a
    ``context_length`` error, None where unknown. ``retryable``: rate limits, unavailability, time-outs
    and broken streams are worth another try, unless the provider gives ``retryable`` because it knows
    better: the server said so, or what failed cannot pass, such as a certificate that is not trusted.
    ``meta`` is what the server's answer said besides the error, None where there was none.

    >>> ProviderError(ProviderErrorKind.RATE_LIMITED, "slow down", retry_after=2.0).retryable
    True
    """

    def __init__(
        self,
        kind: ProviderErrorKind,
        message: str,
        *,
        provider: str = "",
        status: int | None = None,
        retry_after: float | None = None,
        actual: int | None = None,
        limit: int | None = None,
        retryable: bool | None = None,
        meta: ReplyMeta | None = None,
    ) -> None:
        self.kind = kind
        self.message = message
        self.provider = provider
        self.status = status
        self.retry_after = retry_after
        self.actual = actual
        self.limit = limit
        self.retryable = kind in _RETRYABLE if retryable is None else retryable
        self.meta = meta
        super().__init__(f"{provider}: {message}" if provider else message)


class SubmissionInDoubt(ProviderError):  # noqa: N818 (the tree's name; it states what is not known)
    """A vendor may have begun what was submitted, and may bill it; its name did not arrive. Never ``retryable``.

    >>> SubmissionInDoubt(ProviderErrorKind.TIMEOUT, "no answer within 120 s").retryable
    False
    """

    def __init__(
        self, kind: ProviderErrorKind, message: str, *, provider: str = "", status: int | None = None,
        meta: ReplyMeta | None = None,
    ) -> None:  # fmt: skip
        super().__init__(kind, message, provider=provider, status=status, retryable=False, meta=meta)


class ToolErrorKind(StrEnum):
    """Why a tool call has no proper result. The model reads it."""

    UNKNOWN = "unknown_tool"
    """No tool of this name was offered."""
    ARGUMENTS = "invalid_arguments"
    """The arguments do not fit the schema; each problem has its path."""
    FAILED = "failed"
    """The tool raised."""
    TIMEOUT = "timeout"
    """The call took longer than it may."""
    DENIED = "denied"
    """A policy or a person said no."""
    WITHHELD = "withheld"
    """The tool ran, and a policy withholds its result."""
    RESULT = "unusable_result"
    """The tool returned something other than it declares."""
    CANCELLED = "cancelled"
    """The turn was cancelled."""
    NOT_RUN = "not_run"
    """The turn ended before the call."""
    SKIPPED = "skipped"
    """An earlier call of the same reply failed, and this one depends on its success."""
    LIMIT = "limit"
    """A limit of this tool is reached."""
    OUTCOME_UNKNOWN = "outcome_unknown"
    """The call was interrupted, and may have taken effect."""


class ToolError(PluggentError):
    """Raise it in a tool: the model reads the message as the reason of the failure."""

    def __init__(self, message: str, *, tool: str = "", kind: ToolErrorKind = ToolErrorKind.FAILED) -> None:
        self.message = message
        self.tool = tool
        self.kind = kind
        super().__init__(message)


class MemoryStoreErrorKind(StrEnum):
    """Why a memory store failed."""

    UNAVAILABLE = "unavailable"
    """The store cannot be reached."""
    INVALID = "invalid"
    """The request is not one that a store can answer."""
    CONFLICT = "conflict"
    """Another writer was first."""
    DAMAGED = "damaged"
    """What is stored cannot be read."""
    CLOSED = "closed"
    """The store was closed."""


class MemoryStoreError(PluggentError):
    """A memory store failed. Only ``unavailable`` and ``conflict`` are worth another try."""

    def __init__(self, kind: MemoryStoreErrorKind, message: str) -> None:
        self.kind = kind
        self.retryable = kind in (MemoryStoreErrorKind.UNAVAILABLE, MemoryStoreErrorKind.CONFLICT)
        super().__init__(message)


class PlanParseError(PluggentError):
    """A text is not a plan. ``line`` counts from 1; None if the problem has no line."""

    def __init__(self, problems: Sequence[str], line: int | None = None) -> None:
        self.problems = tuple(problems)
        self.line = line
        where = f"line {line}: " if line is not None else ""
        super().__init__(where + "; ".join(self.problems))


class Denied(PluggentError):  # noqa: N818
    """A policy refused an operation outside a turn.

    ``by`` is the plugin (or ``host``), ``digest`` names the refused request, a model may read
    ``tell_model``.
    """

    def __init__(self, by: str, reason: str, digest: str = "", *, tell_model: str = "") -> None:
        self.by = by
        self.reason = reason
        self.digest = digest
        self.tell_model = tell_model or reason
        super().__init__(f"denied by {by}: {reason}")


class LimitReached(PluggentError):  # noqa: N818
    """A limit of the host ended the work; ``limit`` is its name in the settings."""

    def __init__(self, limit: str, value: float) -> None:
        self.limit = limit
        self.value = value
        super().__init__(f"limit '{limit}' reached ({value:g})")


class SessionError(PluggentError):
    """A session was used wrongly, is damaged, or is open elsewhere: in another process, or in this one."""


class SessionOwnerError(SessionError):
    """A stored session belongs to another principal than the one that opens it.

    ``principal`` is its owner, for the application alone: the sentence does not name it. ``claimed``:
    a client began it under an unproven name. ``by`` wanted to open it; ``unproven``: under
    such a name.

    >>> print(SessionOwnerError("trip", "alice"))
    session 'trip' belongs to another principal; open it with principal=…, as that one or one of [grants] sessions
    """

    def __init__(
        self, session_id: str, principal: str, *, by: str = "", claimed: bool = False, unproven: bool = False
    ) -> None:
        self.session_id = session_id
        self.principal = principal
        self.by = by
        self.claimed = claimed
        self.unproven = unproven
        super().__init__(f"session '{session_id}' {self._why()}")

    def _why(self) -> str:
        if self.unproven:
            return "is stored, and a name that a client only claims opens no stored session; begin one of another id"
        whose = (
            "was begun by a client under an unproven name"
            if self.claimed
            else (f"belongs to another principal{f' than {self.by!r}' if self.by else ''}")
        )
        if not self.by:
            return f"{whose}; open it with principal=…, as that one or one of [grants] sessions"
        grant = f"let {self.by!r} open the sessions of others: [grants] sessions = [{self.by!r}]"
        return f"{whose}; {grant if self.claimed else f'open it as that one, or {grant}'}"


class SessionLeaseLost(SessionError):  # noqa: N818 (the tree's name; it states what has happened)
    """Another writer has taken over the session: this one writes nothing more and runs nothing with an effect.

    ``lease`` is the number of the writer that lost it.

    >>> print(SessionLeaseLost("trip", 3))
    session 'trip': another writer has taken it over (lease 3 is lost); what ran meanwhile is for that one to settle
    """

    def __init__(self, session_id: str, lease: int) -> None:
        self.session_id = session_id
        self.lease = lease
        super().__init__(
            f"session '{session_id}': another writer has taken it over (lease {lease} is lost);"
            " what ran meanwhile is for that one to settle"
        )
