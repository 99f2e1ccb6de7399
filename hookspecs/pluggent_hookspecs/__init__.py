"""The contract of pluggent: hooks, events, decisions and values that plugins and the host share.

All names here are public, under the version of this package. A name is imported on first use, so that
importing this package costs next to nothing.
"""

# The modules say in their ``__all__`` what is public.
# pyright: reportWildcardImportFromLibrary=false

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers; __getattr__ does it at run time
    from pluggent_hookspecs._frozen import *  # noqa: F403
    from pluggent_hookspecs._value import *  # noqa: F403
    from pluggent_hookspecs.attachments import *  # noqa: F403
    from pluggent_hookspecs.background import *  # noqa: F403
    from pluggent_hookspecs.commands import *  # noqa: F403
    from pluggent_hookspecs.decisions import *  # noqa: F403
    from pluggent_hookspecs.embeddings import *  # noqa: F403
    from pluggent_hookspecs.errors import *  # noqa: F403
    from pluggent_hookspecs.events import *  # noqa: F403
    from pluggent_hookspecs.folders import *  # noqa: F403
    from pluggent_hookspecs.hooks import *  # noqa: F403
    from pluggent_hookspecs.markers import *  # noqa: F403
    from pluggent_hookspecs.memory import *  # noqa: F403
    from pluggent_hookspecs.messages import *  # noqa: F403
    from pluggent_hookspecs.models import *  # noqa: F403
    from pluggent_hookspecs.observations import *  # noqa: F403
    from pluggent_hookspecs.plans import *  # noqa: F403
    from pluggent_hookspecs.plugins import *  # noqa: F403
    from pluggent_hookspecs.questions import *  # noqa: F403
    from pluggent_hookspecs.reply_meta import *  # noqa: F403
    from pluggent_hookspecs.secrets import *  # noqa: F403
    from pluggent_hookspecs.sessions import *  # noqa: F403
    from pluggent_hookspecs.tools import *  # noqa: F403
    from pluggent_hookspecs.words import *  # noqa: F403

__version__ = "0.1.0"

_MODULES = {
    "_frozen": "EMPTY Json freeze freeze_object thaw",
    "_value": "Value",
    "attachments": "attachment audio file image",
    "background": "BatchResult BatchState BatchTicket Batches RunsLater Ticket",
    "commands": "Command HostOperations HostResult HostTool OnLog OnProgress Requester",
    "decisions": "ANSWERS Allow Answers Approval Ask Decision Deny Reach Respond Window",
    "embeddings": "Embedder EmbeddingIncomplete EmbeddingRequest EmbeddingResponse EmbeddingRole Vectors",
    "errors": (
        "ConfigError Denied HookError LimitReached MemoryStoreError MemoryStoreErrorKind NameTaken PlanParseError "
        "PluggentError PluginError PluginIncompatible PluginLoadError ProviderError ProviderErrorKind SessionError "
        "SessionLeaseLost SessionOwnerError SubmissionInDoubt ToolError ToolErrorKind"
    ),
    "events": (
        "ApprovalEvent DeltaEvent EmbeddingRequestEvent EmbeddingResponseEvent InputEvent MemoryReadEvent "
        "MemoryResultEvent MemoryWriteEvent ModelRequestEvent ModelResponseEvent OutputEvent ProvideEvent "
        "QuestionEvent ReserveEvent Scope SettleEvent ToolCallEvent ToolResultEvent ToolSelectionEvent"
    ),
    "folders": "home_folder private_folder state_folder",
    "hooks": "HOOKS HookInfo",
    "markers": "IMPL_MARK PROJECT Band CallNext HookKind ImplOptions MaybeAsync hookimpl",
    "memory": "MemoryAccess MemoryHit MemoryItem MemoryPage MemoryQuery MemoryStore",
    "messages": "Audio CachePoint File Image Message Part Reasoning Refusal Role Text ToolCall Usage VendorPart",
    "models": (
        "AllowedTools CountsTokens Delta FinishReason Finished HostsTools ListsModels ModelInfo ModelParameters "
        "ModelRequest ModelResponse ModelTimeouts PartDelta Provider ReasoningDelta RefusalDelta Reply TextDelta "
        "ToolCallDelta ToolChoice UsageDelta collect deltas"
    ),
    "observations": (
        "LOG_LEVELS Change DecisionMade Discarded EventsDropped HookFailed ModelCalled ModelRetried Observation "
        "PlanStepChanged PluginStateChanged QuestionAnswered ReasoningShown SessionClosed SessionOpened TextShown "
        "TextsEmbedded ToolFinished ToolLogged ToolProgressed ToolStarted TurnEnded TurnStarted UserNotified Vote"
    ),
    "plans": "Plan PlanParser Step StepStatus",
    "plugins": "Opens PluginContext",
    "questions": "Accepted Cancelled Declined Elicited",
    "reply_meta": "RateLimit ReplyMeta",
    "secrets": "Secret",
    "sessions": (
        "ApprovalRecord ApprovalRecords Line Lines ListedSession SessionLog SessionPage SessionQuery SessionStore"
    ),
    "tools": (
        "HOSTED_APPROVED READ_ONLY TOOL_MARK CallPreview Effect HostedTool Param Tool ToolContext ToolMark ToolOutput "
        "ToolSource ToolSpec UndoCall tool"
    ),
    "words": "read_words",
}
"""The names of each module, as in its ``__all__``: they are known without importing it."""
_WHERE = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = ["__version__", *_WHERE]  # noqa: PLE0604 (strings)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    try:
        module = _WHERE[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
