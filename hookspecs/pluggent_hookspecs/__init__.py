"""The contract of pluggent: what plugins and the host agree on.

Everything named here is public; the version is the promise. A name is imported when it is
first used, so that importing this package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pluggent_hookspecs._frozen import (
        EMPTY as EMPTY,
        Json as Json,
        freeze as freeze,
        freeze_object as freeze_object,
        thaw as thaw,
    )
    from pluggent_hookspecs.commands import (
        Command as Command,
        HostOperations as HostOperations,
        HostResult as HostResult,
        HostTool as HostTool,
        OnLog as OnLog,
        OnProgress as OnProgress,
        Requester as Requester,
    )
    from pluggent_hookspecs.decisions import (
        ANSWERS as ANSWERS,
        Allow as Allow,
        Answers as Answers,
        Approval as Approval,
        Ask as Ask,
        Decision as Decision,
        Deny as Deny,
        Reach as Reach,
        Respond as Respond,
        Window as Window,
    )
    from pluggent_hookspecs.errors import (
        ConfigError as ConfigError,
        Denied as Denied,
        HookError as HookError,
        LimitReached as LimitReached,
        MemoryStoreError as MemoryStoreError,
        MemoryStoreErrorKind as MemoryStoreErrorKind,
        NameTaken as NameTaken,
        PlanParseError as PlanParseError,
        PluggentError as PluggentError,
        PluginError as PluginError,
        PluginIncompatible as PluginIncompatible,
        PluginLoadError as PluginLoadError,
        ProviderError as ProviderError,
        ProviderErrorKind as ProviderErrorKind,
        SessionError as SessionError,
        SessionLeaseLost as SessionLeaseLost,
        SessionOwnerError as SessionOwnerError,
        ToolError as ToolError,
        ToolErrorKind as ToolErrorKind,
    )
    from pluggent_hookspecs.events import (
        ApprovalEvent as ApprovalEvent,
        DeltaEvent as DeltaEvent,
        InputEvent as InputEvent,
        MemoryReadEvent as MemoryReadEvent,
        MemoryResultEvent as MemoryResultEvent,
        MemoryWriteEvent as MemoryWriteEvent,
        ModelRequestEvent as ModelRequestEvent,
        ModelResponseEvent as ModelResponseEvent,
        OutputEvent as OutputEvent,
        ProvideEvent as ProvideEvent,
        QuestionEvent as QuestionEvent,
        ReserveEvent as ReserveEvent,
        Scope as Scope,
        SettleEvent as SettleEvent,
        ToolCallEvent as ToolCallEvent,
        ToolResultEvent as ToolResultEvent,
        ToolSelectionEvent as ToolSelectionEvent,
    )
    from pluggent_hookspecs.folders import private_folder as private_folder
    from pluggent_hookspecs.hooks import (
        HOOKS as HOOKS,
        HookInfo as HookInfo,
    )
    from pluggent_hookspecs.markers import (
        IMPL_MARK as IMPL_MARK,
        PROJECT as PROJECT,
        Band as Band,
        CallNext as CallNext,
        HookKind as HookKind,
        ImplOptions as ImplOptions,
        MaybeAsync as MaybeAsync,
        hookimpl as hookimpl,
    )
    from pluggent_hookspecs.memory import (
        MemoryAccess as MemoryAccess,
        MemoryHit as MemoryHit,
        MemoryItem as MemoryItem,
        MemoryPage as MemoryPage,
        MemoryQuery as MemoryQuery,
        MemoryStore as MemoryStore,
    )
    from pluggent_hookspecs.messages import (
        Audio as Audio,
        File as File,
        Image as Image,
        Message as Message,
        Part as Part,
        Reasoning as Reasoning,
        Refusal as Refusal,
        Role as Role,
        Text as Text,
        ToolCall as ToolCall,
        Usage as Usage,
        VendorPart as VendorPart,
    )
    from pluggent_hookspecs.models import (
        AllowedTools as AllowedTools,
        Delta as Delta,
        Finished as Finished,
        FinishReason as FinishReason,
        ListsModels as ListsModels,
        ModelInfo as ModelInfo,
        ModelParameters as ModelParameters,
        ModelRequest as ModelRequest,
        ModelResponse as ModelResponse,
        PartDelta as PartDelta,
        Provider as Provider,
        ReasoningDelta as ReasoningDelta,
        RefusalDelta as RefusalDelta,
        Reply as Reply,
        TextDelta as TextDelta,
        ToolCallDelta as ToolCallDelta,
        ToolChoice as ToolChoice,
        UsageDelta as UsageDelta,
        collect as collect,
        deltas as deltas,
    )
    from pluggent_hookspecs.observations import (
        LOG_LEVELS as LOG_LEVELS,
        Change as Change,
        DecisionMade as DecisionMade,
        Discarded as Discarded,
        EventsDropped as EventsDropped,
        HookFailed as HookFailed,
        ModelCalled as ModelCalled,
        ModelRetried as ModelRetried,
        Observation as Observation,
        PlanStepChanged as PlanStepChanged,
        PluginStateChanged as PluginStateChanged,
        QuestionAnswered as QuestionAnswered,
        ReasoningShown as ReasoningShown,
        SessionClosed as SessionClosed,
        SessionOpened as SessionOpened,
        TextShown as TextShown,
        ToolFinished as ToolFinished,
        ToolLogged as ToolLogged,
        ToolProgressed as ToolProgressed,
        ToolStarted as ToolStarted,
        TurnEnded as TurnEnded,
        TurnStarted as TurnStarted,
        UserNotified as UserNotified,
        Vote as Vote,
    )
    from pluggent_hookspecs.plans import (
        Plan as Plan,
        PlanParser as PlanParser,
        Step as Step,
        StepStatus as StepStatus,
    )
    from pluggent_hookspecs.plugins import (
        Opens as Opens,
        PluginContext as PluginContext,
    )
    from pluggent_hookspecs.questions import (
        Accepted as Accepted,
        Cancelled as Cancelled,
        Declined as Declined,
        Elicited as Elicited,
    )
    from pluggent_hookspecs.secrets import (
        Secret as Secret,
    )
    from pluggent_hookspecs.sessions import (
        ApprovalRecord as ApprovalRecord,
        ApprovalRecords as ApprovalRecords,
        Line as Line,
        Lines as Lines,
        ListedSession as ListedSession,
        SessionLog as SessionLog,
        SessionPage as SessionPage,
        SessionQuery as SessionQuery,
        SessionStore as SessionStore,
    )
    from pluggent_hookspecs.tools import (
        READ_ONLY as READ_ONLY,
        TOOL_MARK as TOOL_MARK,
        Effect as Effect,
        Param as Param,
        Tool as Tool,
        ToolContext as ToolContext,
        ToolMark as ToolMark,
        ToolOutput as ToolOutput,
        ToolSource as ToolSource,
        ToolSpec as ToolSpec,
        tool as tool,
    )
    from pluggent_hookspecs.words import read_words as read_words

__version__ = "0.1.0"

_ROOMS = {
    "_frozen": (
        "EMPTY",
        "Json",
        "freeze",
        "freeze_object",
        "thaw",
    ),
    "commands": (
        "Command",
        "HostOperations",
        "HostResult",
        "HostTool",
        "OnLog",
        "OnProgress",
        "Requester",
    ),
    "decisions": (
        "ANSWERS",
        "Allow",
        "Answers",
        "Approval",
        "Ask",
        "Decision",
        "Deny",
        "Reach",
        "Respond",
        "Window",
    ),
    "errors": (
        "ConfigError",
        "Denied",
        "HookError",
        "LimitReached",
        "MemoryStoreError",
        "MemoryStoreErrorKind",
        "NameTaken",
        "PlanParseError",
        "PluggentError",
        "PluginError",
        "PluginIncompatible",
        "PluginLoadError",
        "ProviderError",
        "ProviderErrorKind",
        "SessionError",
        "SessionLeaseLost",
        "SessionOwnerError",
        "ToolError",
        "ToolErrorKind",
    ),
    "events": (
        "ApprovalEvent",
        "DeltaEvent",
        "InputEvent",
        "MemoryReadEvent",
        "MemoryResultEvent",
        "MemoryWriteEvent",
        "ModelRequestEvent",
        "ModelResponseEvent",
        "OutputEvent",
        "ProvideEvent",
        "QuestionEvent",
        "ReserveEvent",
        "Scope",
        "SettleEvent",
        "ToolCallEvent",
        "ToolResultEvent",
        "ToolSelectionEvent",
    ),
    "folders": ("private_folder",),
    "hooks": (
        "HOOKS",
        "HookInfo",
    ),
    "markers": (
        "Band",
        "CallNext",
        "HookKind",
        "IMPL_MARK",
        "ImplOptions",
        "MaybeAsync",
        "PROJECT",
        "hookimpl",
    ),
    "memory": (
        "MemoryAccess",
        "MemoryHit",
        "MemoryItem",
        "MemoryPage",
        "MemoryQuery",
        "MemoryStore",
    ),
    "messages": (
        "Audio",
        "File",
        "Image",
        "Message",
        "Part",
        "Reasoning",
        "Refusal",
        "Role",
        "Text",
        "ToolCall",
        "Usage",
        "VendorPart",
    ),
    "models": (
        "AllowedTools",
        "Delta",
        "FinishReason",
        "Finished",
        "ListsModels",
        "ModelInfo",
        "ModelParameters",
        "ModelRequest",
        "ModelResponse",
        "PartDelta",
        "Provider",
        "ReasoningDelta",
        "RefusalDelta",
        "Reply",
        "TextDelta",
        "ToolCallDelta",
        "ToolChoice",
        "UsageDelta",
        "collect",
        "deltas",
    ),
    "observations": (
        "LOG_LEVELS",
        "Change",
        "DecisionMade",
        "Discarded",
        "EventsDropped",
        "HookFailed",
        "ModelCalled",
        "ModelRetried",
        "Observation",
        "PlanStepChanged",
        "PluginStateChanged",
        "QuestionAnswered",
        "ReasoningShown",
        "SessionClosed",
        "SessionOpened",
        "TextShown",
        "ToolFinished",
        "ToolLogged",
        "ToolProgressed",
        "ToolStarted",
        "TurnEnded",
        "TurnStarted",
        "UserNotified",
        "Vote",
    ),
    "plans": (
        "Plan",
        "PlanParser",
        "Step",
        "StepStatus",
    ),
    "plugins": (
        "Opens",
        "PluginContext",
    ),
    "questions": (
        "Accepted",
        "Cancelled",
        "Declined",
        "Elicited",
    ),
    "secrets": ("Secret",),
    "sessions": (
        "ApprovalRecord",
        "ApprovalRecords",
        "Line",
        "Lines",
        "ListedSession",
        "SessionLog",
        "SessionPage",
        "SessionQuery",
        "SessionStore",
    ),
    "tools": (
        "Effect",
        "Param",
        "READ_ONLY",
        "TOOL_MARK",
        "Tool",
        "ToolContext",
        "ToolMark",
        "ToolOutput",
        "ToolSource",
        "ToolSpec",
        "tool",
    ),
    "words": ("read_words",),
}
_WHERE = {name: room for room, names in _ROOMS.items() for name in names}

__all__ = [  # noqa: PLE0604 (strings, from the table above)
    "__version__",
    *_WHERE,
]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    try:
        room = _WHERE[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = getattr(import_module(f"{__name__}.{room}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
