"""The table of entry paths: every way into an operation, with the operations that it contains.

Texts say where they come from: ``said-1`` was said, ``reply-2`` answered, ``result-mark-one`` came out
of the call that carries ``mark-one``, ``kept-key-one`` out of memory. The checks go by these words.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from pluggent_hookspecs.embeddings import EmbeddingResponse, Vectors
from pluggent_hookspecs.messages import Message
from pluggent_hookspecs.tools import ToolOutput

from pluggent_testing.fakes import Reply, call
from pluggent_testing.paths import parts, ways
from pluggent_testing.paths.operations import (
    APPROVAL,
    BATCH_READ,
    BATCHED,
    COUNT,
    EMBED,
    EMBED_AGAIN,
    EMBED_ANSWERED,
    EMBED_ANSWERED_AROUND,
    MODEL,
    MODEL_AGAIN,
    MODEL_ANSWERED,
    MODEL_ANSWERED_AROUND,
    MODEL_FORGONE,
    MODEL_REPLACED,
    OFFER,
    OUTPUT,
    QUESTION,
    READ,
    RESUMED,
    ROUND,
    STREAM,
    TOOL,
    TOOL_AGAIN,
    TOOL_ANSWERED,
    TOOL_ANSWERED_AROUND,
    TOOL_CONFIRMED,
    TOOL_DRY,
    TOOL_HOSTED,
    TOOL_PENDING,
    TOOL_REFUSED,
    TOOL_RESUMED,
    TURN,
    TURN_ANSWERED,
    WRITE,
    EntryPath,
    Operation,
)
from pluggent_testing.paths.parts import calls, fails, saying
from pluggent_testing.paths.probes import holding

SAY, STREAMING, RESUME, CALL = "Session.say", "Session.stream", "Session.resume", "Session.call_tool"
SCHEMA = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}

ONE_CALL = (saying("reply-1", calls("tool", "one")), "reply-2 in words")
NESTED_CALL = (calls("nested", "outer"), "reply-2 in words")
CALL_TURN: tuple[Operation, ...] = (TURN, *ROUND, OUTPUT, TOOL, *ROUND, OUTPUT)
SILENT_CALL: tuple[Operation, ...] = (TURN, *ROUND, TOOL, *ROUND, OUTPUT)
MEMORY: tuple[Operation, ...] = (WRITE, WRITE, READ, READ, READ)
MEMORY_ACCESS = tuple(f"MemoryAccess.{name}" for name in ("save", "delete", "get", "list", "search"))
SYNC_MEMORY = tuple(name.replace("MemoryAccess", "SyncMemory") for name in MEMORY_ACCESS)
BATCH_RESULT = (BATCH_READ, OUTPUT)
BATCHES = ("HostBatches.submit", "HostBatches.results")
BELOW_ALL: tuple[Operation, ...] = (MODEL, COUNT, EMBED, QUESTION, TOOL, *MEMORY)
BELOW_TOOL = tuple(f"ToolContext.{name}" for name in ("call_tool", "call_model", "count", "embed", "elicit", "memory"))
PAUSING = {"on_ask": "pause"}

# ---- turns ------------------------------------------------------------------------------

TURNS = (
    EntryPath(
        "say", (SAY, "Host.session", "Host.open"), {"api": CALL_TURN}, ways.saying_once(), ONE_CALL, functions=True
    ),
    EntryPath(
        "chat",
        (SAY,),
        {"api": (TURN, *ROUND, OUTPUT, *CALL_TURN)},
        ways.chat,
        ("reply-0 in words", *ONE_CALL),
    ),
    EntryPath("background", (SAY,), {"api": CALL_TURN}, ways.saying_once(parameters=ways.LATER), ONE_CALL),
    EntryPath("history", (SAY, "Host.session"), {"api": CALL_TURN}, ways.history, ONE_CALL),
    EntryPath("files", (SAY,), {"api": CALL_TURN}, ways.files, ONE_CALL),
    EntryPath(
        "reopened", (SAY, "Host.session"), {"api": (TURN, *ROUND, OUTPUT, *CALL_TURN)}, ways.reopened,
        ("reply-0", *ONE_CALL), durable=True,
    ),
    EntryPath(
        "undo", (SAY, "Session.undo"), {"api": (TURN, *ROUND, OUTPUT, *CALL_TURN)}, ways.undone, ("reply-0", *ONE_CALL)
    ),
    EntryPath(
        "put-back", (SAY, "Session.put_back"), {"api": SILENT_CALL, "undo": (TOOL,)}, ways.put_back,
        (calls("undoable", "one"), "reply-2 in words"),
    ),
    EntryPath(
        "another-model", (SAY, "Session.use"), {"api": (TURN, *ROUND, OUTPUT, *CALL_TURN)}, ways.another_model,
        ONE_CALL, other=("reply-0",),
    ),
    EntryPath(
        "structured-output", (SAY,), {"api": (TURN, *ROUND, OUTPUT, *ROUND, OUTPUT)},
        ways.saying_once(output=SCHEMA), ("reply-1 has no form", '{"town": "reply-2"}'),
    ),
    EntryPath(
        "hosted-call", (SAY,), {"api": (TURN, *ROUND, TOOL_HOSTED, *ROUND, OUTPUT)}, ways.saying_once(),
        (attrs.evolve(calls("tool", "one"), hosted="mcp/wiki"), "reply-2 in words"), hosted=("mcp/wiki",),
        settings={"effects": {"paths:hosted/mcp/wiki": ()}}, repeats=(TURN, *ROUND, TOOL_HOSTED, OUTPUT),
    ),
    EntryPath(
        "installed", (SAY, "Host.open"), {"api": CALL_TURN}, ways.saying_once(), ONE_CALL, installed="everything"
    ),
)  # fmt: skip

# ---- streams ----------------------------------------------------------------------------

STREAMED = (TURN, *ROUND, STREAM, OUTPUT, TOOL, *ROUND, STREAM, OUTPUT)
STREAMS = (
    EntryPath("stream", (STREAMING,), {"stream": STREAMED}, ways.stream, ONE_CALL),
    EntryPath("stream-background", (STREAMING,), {"stream": STREAMED}, ways.stream_background, ONE_CALL),
    EntryPath("stream-whole", (STREAMING,), {"stream": STREAMED}, ways.stream, ONE_CALL, whole=True),
    EntryPath(
        "stream-held", (STREAMING,), {"stream": CALL_TURN}, ways.stream, ONE_CALL, plugins=lambda _: (holding(),)
    ),
    EntryPath(
        "stream-provisional", (STREAMING,), {"stream": STREAMED}, ways.stream, ONE_CALL,
        plugins=lambda _: (holding(),), settings={"stream": "provisional"},
    ),
    EntryPath(
        "stream-broken", (STREAMING,), {"stream": (TURN, *ROUND, STREAM, OUTPUT)}, ways.stream,
        ("reply-1 in words that break off",), cut=3,
    ),
    EntryPath(
        "stream-nested", (STREAMING, *BELOW_TOOL),
        {"stream": (TURN, *ROUND, TOOL, *ROUND, STREAM, OUTPUT), "tool": BELOW_ALL}, ways.stream,
        (calls("nested", "outer"), "answer-inner", "reply-2 in words"), nested=parts.nested_all, plugins=parts.knowing,
    ),
)  # fmt: skip

# ---- tool calls -------------------------------------------------------------------------

BATCH_OF_3 = (TURN, *ROUND, TOOL, TOOL, TOOL, *ROUND, OUTPUT)


def batch(*names: str) -> tuple[Reply, ...]:
    """Return a reply that makes a call of each tool, and the one after it."""
    return tuple(calls(name, mark) for name, mark in zip(names, ("one", "two", "three"), strict=False)), "reply-2"


CALLS = (
    EntryPath("call_tool", (CALL,), {"api": (TOOL,)}, ways.calling("tool")),
    EntryPath("call_tool-blocking", (CALL,), {"api": (TOOL,)}, ways.calling("blocking"), functions=True),
    EntryPath("call_tool-failing", (CALL,), {"api": (TOOL,)}, ways.calling("failing")),
    EntryPath("call_tool-showing", (CALL,), {"api": (TOOL, OUTPUT)}, ways.calling("showing")),
    EntryPath(
        "batch", (SAY,), {"api": BATCH_OF_3}, ways.saying_once(), batch("tool", "blocking", "tool"), functions=True
    ),
    EntryPath(
        "batch-serial", (SAY,), {"api": (*BATCH_OF_3, TOOL_CONFIRMED, TOOL_CONFIRMED)}, ways.saying_once(),
        batch("writing", "writing", "writing"),
    ),
    EntryPath("batch-exclusive", (SAY,), {"api": BATCH_OF_3}, ways.saying_once(), batch("tool", "alone", "tool")),
    EntryPath("failing-tool", (SAY,), {"api": SILENT_CALL}, ways.saying_once(), batch("failing")),
    EntryPath("showing-tool", (SAY,), {"api": (*SILENT_CALL, OUTPUT)}, ways.saying_once(), batch("showing")),
    EntryPath(
        "refused-calls", (SAY,), {"api": (TURN, *ROUND, TOOL_REFUSED, TOOL_REFUSED, *ROUND, OUTPUT)},
        ways.saying_once(), ((calls("nothing", "one"), call("probe_tool", "call_two", wrong=1)), "reply-2"),
    ),
    EntryPath(
        "dry-run", (SAY,), {"api": (TURN, *ROUND, TOOL_DRY, *ROUND, OUTPUT)},
        ways.saying_once(dry_run=True), batch("writing"),
    ),
)  # fmt: skip

# ---- below a tool -----------------------------------------------------------------------

BELOW = (
    EntryPath(
        "nested-tool", ("ToolContext.call_tool",), {"api": SILENT_CALL, "tool": (TOOL,)}, ways.saying_once(),
        NESTED_CALL, nested=parts.nested_tool,
    ),
    EntryPath(
        "nested-deep", ("ToolContext.call_tool",), {"api": SILENT_CALL, "tool": (TOOL, TOOL)}, ways.saying_once(),
        NESTED_CALL, nested=parts.nested_deep,
    ),
    EntryPath(
        "nested-model", ("ToolContext.call_model",), {"api": SILENT_CALL, "tool": (MODEL,)}, ways.saying_once(),
        (calls("nested", "outer"), "answer-inner", "reply-2"), nested=parts.nested_model,
    ),
    EntryPath(
        "nested-model-agreed", ("ToolContext.call_model",), {"api": SILENT_CALL, "tool": (MODEL, APPROVAL)},
        ways.saying_once(), (calls("nested", "outer"), "answer-inner", "reply-2"), nested=parts.nested_agreed,
        plugins=parts.agreeing,
    ),
    EntryPath(
        "nested-count", ("ToolContext.count",), {"api": SILENT_CALL, "tool": (COUNT,)}, ways.saying_once(), NESTED_CALL,
        nested=parts.nested_count,
    ),
    EntryPath(
        "nested-embed", ("ToolContext.embed",), {"api": SILENT_CALL, "tool": (EMBED,)}, ways.saying_once(), NESTED_CALL,
        nested=parts.nested_embed,
    ),
    EntryPath(
        "nested-memory", ("ToolContext.memory", *MEMORY_ACCESS), {"api": SILENT_CALL, "tool": MEMORY},
        ways.saying_once(), NESTED_CALL, nested=parts.nested_memory,
    ),
    EntryPath(
        "nested-question", ("ToolContext.elicit",), {"api": SILENT_CALL, "tool": (QUESTION,)}, ways.saying_once(),
        NESTED_CALL, nested=parts.nested_question, plugins=parts.knowing,
    ),
    EntryPath(
        "call_tool-nested", (CALL, *BELOW_TOOL),
        {"api": (TOOL,), "tool": BELOW_ALL}, ways.calling("nested", "outer"), ("answer-inner",),
        nested=parts.nested_all, plugins=parts.knowing,
    ),
    EntryPath("memory", ("Host.memory", *MEMORY_ACCESS), {"api": MEMORY}, ways.memory),
    EntryPath("count", ("Host.count",), {"api": (COUNT,)}, ways.count),
    EntryPath("embed", ("Host.embed",), {"api": (EMBED,)}, ways.embedding),
    EntryPath(
        "vendor-batch", BATCHES, {"api": (BATCHED, BATCHED, *BATCH_RESULT, *BATCH_RESULT)}, ways.batch,
        ("reply-1", "reply-2"),
    ),
    EntryPath("embed-installed", ("Host.embed",), {"api": (EMBED,)}, ways.embedding, installed="everything"),
)  # fmt: skip

# ---- people -----------------------------------------------------------------------------

WAITING = {"api": (TURN, *ROUND, TOOL_PENDING, APPROVAL), "resume": (RESUMED, TOOL_RESUMED, *ROUND, OUTPUT)}
WATCHED = {**WAITING, "resume": (*WAITING["resume"], STREAM)}
ASKED_CALL = batch("tool")
PEOPLE = (
    EntryPath(
        "resume", (SAY, RESUME), WAITING, ways.resume, ASKED_CALL, plugins=parts.asking("decide_tool_call"),
        settings=PAUSING,
    ),
    EntryPath(
        "resume-stream", (SAY, "Session.stream_resume"), WATCHED, ways.stream_resume, ASKED_CALL,
        plugins=parts.asking("decide_tool_call"), settings=PAUSING,
    ),
    EntryPath(
        "resume-reopened", (SAY, RESUME), WAITING, ways.resume_elsewhere, ASKED_CALL,
        plugins=parts.asking("decide_tool_call"), settings=PAUSING, durable=True,
    ),
    *(
        EntryPath(
            f"approved-{hook.removeprefix('decide_').replace('_', '-')}", (SAY,),
            {"api": (*SILENT_CALL, *(APPROVAL,) * times)}, ways.saying_once(), ASKED_CALL,
            plugins=parts.approving(hook), repeats=tuple(each for each in SILENT_CALL if hook not in each.hooks),
        )
        for hook, times in (
            ("decide_input", 1), ("decide_model_request", 2), ("decide_model_response", 2),
            ("decide_tool_call", 1), ("decide_tool_result", 1), ("decide_output", 1),
        )
    ),
    *(
        EntryPath(
            f"approved-{hook.removeprefix('decide_').replace('_', '-')}", ("Host.memory",),
            {"api": (*MEMORY, *(APPROVAL,) * times)}, ways.memory, plugins=parts.approving(hook),
        )
        for hook, times in (("decide_memory_write", 2), ("decide_memory_read", 3))
    ),
    *(
        EntryPath(
            f"approved-{hook.removeprefix('decide_').replace('_', '-')}", ("Host.embed",),
            {"api": (EMBED, APPROVAL)}, ways.embedding, plugins=parts.approving(hook),
        )
        for hook in ("decide_embedding_request", "decide_embedding_response")
    ),
    EntryPath(
        "approved-nested", ("ToolContext.call_tool",), {"api": (*SILENT_CALL, APPROVAL), "tool": (TOOL, APPROVAL)},
        ways.saying_once(), NESTED_CALL, plugins=parts.approving("decide_tool_call"), nested=parts.nested_tool,
    ),
    EntryPath(
        "approved-call_tool", (CALL,), {"api": (TOOL, APPROVAL)}, ways.calling("tool"),
        plugins=parts.approving("decide_tool_call"),
    ),
)  # fmt: skip

# ---- answers, repetitions, replacements -------------------------------------------------

ANSWER = "reply-from a plugin"
VECTORS = EmbeddingResponse(Vectors.of([(1.0, 0.0), (0.0, 1.0)]), model="vector-from a plugin")
ALTERED = (
    EntryPath(
        "respond-input", (SAY,), {"api": (TURN_ANSWERED, OUTPUT)}, ways.saying_once(),
        plugins=parts.responding("decide_input", ANSWER),
    ),
    EntryPath(
        "respond-model", (SAY,), {"api": (TURN, OFFER, MODEL_ANSWERED, OUTPUT)}, ways.saying_once(),
        plugins=parts.responding("decide_model_request", ANSWER),
    ),
    EntryPath(
        "respond-tool", (SAY,), {"api": (TURN, *ROUND, TOOL_ANSWERED, *ROUND, OUTPUT)}, ways.saying_once(),
        batch("tool"), plugins=parts.responding("decide_tool_call", ToolOutput("result-of a plugin")),
    ),
    EntryPath(
        "answer-around-turn", (SAY,), {"api": (TURN, OUTPUT)}, ways.saying_once(),
        plugins=parts.answering("around_turn", Message.assistant(ANSWER)),
    ),
    EntryPath(
        "answer-around-model", (SAY,), {"api": (TURN, OFFER, MODEL_ANSWERED_AROUND, OUTPUT)}, ways.saying_once(),
        plugins=parts.answering("around_model_call", saying(ANSWER)),
    ),
    EntryPath(
        "answer-around-tool", (SAY,), {"api": (TURN, *ROUND, TOOL_ANSWERED_AROUND, *ROUND, OUTPUT)},
        ways.saying_once(), batch("tool"),
        plugins=parts.answering("around_tool_call", ToolOutput("result-of a plugin")),
    ),
    EntryPath(
        "approved-count", ("Host.count",), {"api": (COUNT, APPROVAL)}, ways.count,
        plugins=parts.approving("decide_model_request"),
    ),
    EntryPath(
        "respond-embedding", ("Host.embed",), {"api": (EMBED_ANSWERED,)}, ways.embedding,
        plugins=parts.responding("decide_embedding_request", VECTORS),
    ),
    EntryPath(
        "answer-around-embedding", ("Host.embed",), {"api": (EMBED_ANSWERED_AROUND,)}, ways.embedding,
        plugins=parts.answering("around_embedding_call", VECTORS),
    ),
    EntryPath(
        "retry-embedding", ("Host.embed",), {"api": (EMBED, EMBED_AGAIN)}, ways.embedding, failures=1,
        plugins=parts.repeating("around_embedding_call", parts.until_it_works),
    ),
    EntryPath(
        "retry", (SAY,), {"api": (TURN, *ROUND, MODEL_AGAIN, OUTPUT)}, ways.saying_once(), (fails, "reply-2"),
        plugins=parts.repeating("around_model_call", parts.until_it_works),
    ),
    EntryPath(
        "retry-stream", (STREAMING,), {"stream": (TURN, *ROUND, MODEL_AGAIN, STREAM, OUTPUT)}, ways.stream,
        (fails, "reply-2"), plugins=parts.repeating("around_model_call", parts.until_it_works),
    ),
    EntryPath(
        "retry-tool", (SAY,), {"api": (*SILENT_CALL, TOOL_AGAIN)}, ways.saying_once(), batch("failing"),
        plugins=parts.repeating("around_tool_call", parts.while_it_fails),
    ),
    EntryPath(
        "reissue", (SAY,), {"api": (TURN, OFFER, MODEL_FORGONE, MODEL_REPLACED, OUTPUT)}, ways.saying_once(),
        ("reply-2",), plugins=parts.repeating("around_model_call", parts.changed_first),
    ),
    EntryPath(
        "fallback", (SAY,), {"api": (TURN, *ROUND, MODEL_REPLACED, OUTPUT)}, ways.saying_once(), (fails,),
        other=("reply-2",), plugins=parts.repeating("around_model_call", parts.elsewhere),
    ),
    EntryPath(
        "fallback-stream", (STREAMING,), {"stream": (TURN, *ROUND, MODEL_REPLACED, STREAM, OUTPUT)}, ways.stream,
        (fails,), other=("reply-2",), plugins=parts.repeating("around_model_call", parts.elsewhere),
    ),
)  # fmt: skip

# ---- commands of plugins ----------------------------------------------------------------

LENT = ("HostOperations.call_tool",)
COMMANDS = (
    EntryPath(
        "command", ("HostOperations.tools", *LENT), {"cli": (TOOL, TOOL)},
        ways.lent(("probe_tool", "one"), ("probe_tool", "two")), opens=True, installed="tools",
    ),
    EntryPath(
        "command-by-id", LENT, {"cli": (TOOL,)},
        ways.lent(("paths-tools:tool/probe_tool", "one"), listed=False), opens=True, installed="tools",
    ),
    EntryPath(
        "command-for-others", LENT, {"mcp": (TOOL, OUTPUT)}, ways.lent(("probe_showing", "one"), origin="mcp"),
        opens=True, installed="tools",
    ),
    EntryPath(
        "command-nested", (*LENT, *BELOW_TOOL), {"mcp": (TOOL,), "tool": BELOW_ALL},
        ways.lent(("probe_nested", "outer"), origin="mcp"), ("answer-inner",), nested=parts.nested_all,
        plugins=parts.knowing, opens=True, installed="tools",
    ),
    EntryPath(
        "command-approved", LENT, {"cli": (TOOL, APPROVAL)}, ways.lent(("probe_tool", "one")),
        plugins=parts.approving("decide_tool_call"), opens=True, installed="tools",
    ),
)  # fmt: skip

# ---- without a loop ---------------------------------------------------------------------

WITHOUT_LOOP = (
    EntryPath(
        "sync-say", ("SyncSession.say", "SyncHost.session", "SyncHost.open"), {"api": CALL_TURN}, ways.sync_say,
        ONE_CALL, opens=True,
    ),
    EntryPath("sync-stream", ("SyncSession.stream",), {"stream": STREAMED}, ways.sync_stream, ONE_CALL, opens=True),
    EntryPath("sync-call_tool", ("SyncSession.call_tool",), {"api": (TOOL,)}, ways.sync_call_tool, opens=True),
    EntryPath(
        "sync-resume", ("SyncSession.resume",), WAITING, ways.sync_resume, ASKED_CALL, opens=True,
        plugins=parts.asking("decide_tool_call"), settings=PAUSING,
    ),
    EntryPath(
        "sync-resume-stream", ("SyncSession.stream_resume",), WATCHED, ways.sync_stream_resume, ASKED_CALL,
        opens=True, plugins=parts.asking("decide_tool_call"), settings=PAUSING,
    ),
    EntryPath(
        "sync-memory", ("SyncHost.memory", *SYNC_MEMORY), {"api": MEMORY}, ways.sync_memory, opens=True,
    ),
    EntryPath("sync-count", ("SyncHost.count",), {"api": (COUNT,)}, ways.sync_count, opens=True),
    EntryPath(
        "sync-batch", tuple(name.replace("Host", "Sync") for name in BATCHES),
        {"api": (BATCHED, BATCHED, *BATCH_RESULT, *BATCH_RESULT)}, ways.sync_batch, ("reply-1", "reply-2"), opens=True,
    ),
    EntryPath("sync-embed", ("SyncHost.embed",), {"api": (EMBED,)}, ways.sync_embedding, opens=True),
    EntryPath("run_sync", ("Host.run_sync",), {"api": CALL_TURN}, ways.run_sync, ONE_CALL, opens=True),
)  # fmt: skip

EVERY = (*TURNS, *STREAMS, *CALLS, *BELOW, *PEOPLE, *ALTERED, *COMMANDS, *WITHOUT_LOOP)
PATHS: Mapping[str, EntryPath] = {path.name: path for path in EVERY}
"""Every entry path by its name."""
