"""What has to hold of a run of a path. Each check raises AssertionError with a sentence about what did not.

Pure: they look at a Stage after the run.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, assert_never

from pluggent_hookspecs import events as e
from pluggent_hookspecs.messages import ToolCall
from pluggent_hookspecs.observations import DecisionMade

from pluggent_testing.paths.operations import TOOL_HOSTED
from pluggent_testing.paths.probes import ANSWERED, CHANGED_MARK, MARK, SECRET, TEMPERATURE, judge_of, scope_of
from pluggent_testing.paths.stage import ENTERED, EXECUTED, Noted, Stage

_TOKEN = re.compile(rf"\b(?:{'|'.join(SECRET)})-[a-z0-9-]+")


def executed(noted: Iterable[Noted]) -> list[str]:
    """Return what was executed, in words."""
    return [f"{each.what} {_short(each.value)}" for each in noted if each.what in EXECUTED]


def _short(value: Any) -> str:
    return repr(getattr(value, "messages", value))[-120:]


def kinds_executed(stage: Stage) -> list[str]:
    """Return what kinds of things were executed, in order."""
    return [each.what for each in stage.log.of(*EXECUTED)]


# ---- everything fires -------------------------------------------------------------------


def fired_as_often(stage: Stage) -> None:
    """Every hook fired once for each operation of the path, in the right place; nothing else was executed."""
    path, log = stage.path, stage.log
    fired = Counter((each.hook, scope_of(each.value).origin) for each in log.of("fired"))
    wanted = Counter({key: due for key, due in path.fires().items() if key[0] != "transform_delta" or not stage.held})
    differ = {key: (fired[key], wanted[key]) for key in sorted({*fired, *wanted}) if fired[key] != wanted[key]}
    told = "; ".join(f"{hook} ({origin}) {was} times, not {due}" for (hook, origin), (was, due) in differ.items())
    assert not differ, f"{path.name}: these hooks fired otherwise than the operations went: {told}{_why(stage)}"
    done = Counter(each.what for each in log.of(*EXECUTED))
    assert done == path.executes(), f"{path.name}: executed {dict(done)}, not {dict(path.executes())}{_why(stage)}"
    for each in log.of("fired"):
        scope = scope_of(each.value)
        below = scope.origin == "tool"
        assert bool(scope.parent_id) == below, f"{path.name}: {each.hook} has the wrong parent: {scope}"


def _why(stage: Stage) -> str:
    refused = [
        f"\n  {made.operation} {made.verdict} by {made.by}: {made.reason}"
        for made in (each.value for each in stage.log.of("recorded"))
        if isinstance(made, DecisionMade) and made.verdict not in ("allow", "approved", "respond")
    ]
    return "".join(("\nDecided against:", *refused)) if refused else ""


def recorded_before(stage: Stage) -> None:
    """Every decision was recorded by the sink before what it allowed was executed, and observers heard the same.

    What a person answers to a question is in no record.
    """
    log, open_calls = stage.log, Counter[str]()
    allowed: set[str] = set()
    for each in log.noted:
        match each.what, each.value:
            case "recorded", DecisionMade(verdict="allow" | "approved" | "respond") as made:
                open_calls[made.operation] += 1
                allowed.update(MARK.findall(made.arguments_json.decode()))
            case "ran", mark:
                assert mark in allowed, f"{stage.path.name}: '{mark}' ran before a sink had the decision about it"
            case "questioned", _:
                assert open_calls["question"], f"{stage.path.name}: a person was asked before a sink knew of it"
            case "asked", _:
                assert open_calls["model_call"], f"{stage.path.name}: a model was asked before a sink knew of it"
            case "counted", _:
                assert open_calls["count"], f"{stage.path.name}: tokens were counted before a sink knew of it"
            case "embedded", _:
                assert open_calls["embedding"], f"{stage.path.name}: texts were embedded before a sink knew of it"
            case ("wrote" | "read") as what, _:
                operation = "memory_write" if what == "wrote" else "memory_read"
                assert open_calls[operation], f"{stage.path.name}: memory was used before a sink knew of it"
                open_calls[operation] -= 1
            case _:
                pass
    sunk = [each.value for each in log.of("recorded") if isinstance(each.value, DecisionMade)]
    seen = [each.value for each in log.of("observed") if isinstance(each.value, DecisionMade)]
    assert sunk == seen, f"{stage.path.name}: sinks and observers were told different decisions"
    fired = Counter(each.hook for each in log.of("fired"))
    decided = sum(count for hook, count in fired.items() if hook.startswith("decide_"))
    voted = [made for made in sunk if any(vote.plugin in stage.watching for vote in made.votes)]
    assert len(voted) == decided, f"{stage.path.name}: {decided} times was decided, and {len(voted)} times recorded"
    assert ANSWERED not in stage.records(), f"{stage.path.name}: what a person answered is recorded"


_PAID = {"asked": "model_call", "ran": "tool_call", "embedded": "embedding"}
"""What is executed and costs something, and the name of its operation."""


def reserved_and_settled(stage: Stage) -> None:
    """Every attempt had its reservation before it, and every reservation was settled once, by itself."""
    reserved, begun, settled = Counter[str](), Counter[str](), Counter[str]()
    runs: set[str] = set()
    for each in stage.log.noted:
        match each.hook, each.what:
            case "reserve", "fired":
                # A run that outlives processes may be reserved again, and is charged once.
                reserved[each.value.operation] += not each.value.run or each.value.run not in runs
                runs.add(each.value.run)
            case "settle", "fired":
                event: e.SettleEvent = each.value
                assert event.reservation == {"held": event.reserved.operation_id}
                settled[event.reserved.operation] += 1
            case _, ("asked" | "ran" | "embedded") as what:
                kind = _PAID[what]
                begun[kind] += 1
                assert reserved[kind] >= begun[kind], f"{stage.path.name}: a {kind} began before it was reserved"
                assert settled[kind] < begun[kind], f"{stage.path.name}: a {kind} was settled before it began"
            case _:
                pass
    # Nothing here runs for a call at the vendor: what is paid for is that it may be made.
    begun += Counter({"tool_call": sum(each is TOOL_HOSTED for _, each in stage.path.operations())})
    assert reserved == begun, f"{stage.path.name}: {dict(begun)} attempts, and {dict(reserved)} reservations"
    assert settled == reserved, f"{stage.path.name}: {dict(reserved)} reservations, and {dict(settled)} settled"


# ---- what is refused does not happen ----------------------------------------------------


def stopped(stage: Stage, event: Any) -> None:
    """What the probe refused, or failed on, when it was given *event*, had no effect and was not seen."""
    match event:
        case e.InputEvent() | e.ToolSelectionEvent():
            _nothing(stage, stage.log.after("hit", until=ENTERED), "the turn went on")
        case e.ModelRequestEvent():
            for what in ("asked", "counted"):
                same = _later(stage, what, lambda request: request.messages == event.request.messages)
                _nothing(stage, same, f"the model was {what}")
        case e.EmbeddingRequestEvent():
            same = _later(stage, "embedded", lambda request: request.texts == event.request.texts)
            _nothing(stage, same, "texts were embedded")
        case e.ToolCallEvent():
            _not_run(stage, MARK.findall(event.arguments_json.decode()))
        case e.ReserveEvent():
            _unpaid(stage, event)
        case e.ApprovalEvent():
            stopped(stage, _asked_about(stage))
        case DecisionMade():
            _unrecorded(stage, event)
        case e.MemoryWriteEvent() | e.MemoryReadEvent() | e.QuestionEvent():
            _left_alone(stage, event)
        case _:
            _withheld(stage, event)


def _left_alone(stage: Stage, event: e.MemoryWriteEvent | e.MemoryReadEvent | e.QuestionEvent) -> None:
    match event:
        case e.MemoryWriteEvent():
            keys = {item.key for item in event.items} | {key for _, key in event.delete}
            same = _later(stage, "wrote", lambda written: not keys.isdisjoint(key for key, _ in written))
            _nothing(stage, same, "memory was written to")
        case e.MemoryReadEvent():
            what = event.key or event.text or (event.query and event.query.prefix)
            _nothing(stage, _later(stage, "read", lambda read: read == what), "memory was read")
        case e.QuestionEvent():
            _nothing(stage, _later(stage, "questioned", lambda _: True), "a person was asked")
        case _:
            assert_never(event)


def _withheld(stage: Stage, event: Any) -> None:
    match event:
        case e.ModelResponseEvent():
            _calls_not_run(stage, event.response.message.tool_calls)
            unseen(stage, _first(event.response.message.text))
        case e.OutputEvent(source=source, scope=scope) if source != "reply" and "shown-" not in event.message.text:
            # For the model, and in its transcript, it still is; an outer call may say it again, which is judged anew.
            unwatched(stage, _first(event.message.text), scope.parent_id)
        case e.OutputEvent():
            _calls_not_run(stage, event.message.tool_calls)
            unseen(stage, _first(event.message.text))
        case e.ToolResultEvent():
            unseen(stage, _first(str(event.output.for_model)))
        case e.EmbeddingResponseEvent():
            unseen(stage, _first(event.response.model))
        case e.MemoryResultEvent():
            unseen(stage, [item.text for item in event.items])
        case _:
            raise AssertionError(f"the path matrix does not know what {type(event).__name__} would do: see stopped()")


def _later(stage: Stage, what: str, same: Callable[[Any], bool]) -> list[Noted]:
    return [each for each in stage.log.after("hit") if each.what == what and same(each.value)]


def _nothing(stage: Stage, later: Iterable[Noted], what: str) -> None:
    done = executed(later)
    assert not done, f"{stage.path.name}: {what} after it was refused: {done}"


def _not_run(stage: Stage, marks: Iterable[str]) -> None:
    _nothing(stage, _later(stage, "ran", set(marks).__contains__), "the tool was run")


def _calls_not_run(stage: Stage, calls: Iterable[ToolCall]) -> None:
    _not_run(stage, [mark for call in calls for mark in MARK.findall(call.arguments)])


def _first(text: str) -> list[str]:
    # What comes first is the operation's own; the rest are results of others, which were released.
    return _TOKEN.findall(text)[:1]


def unseen(stage: Stage, tokens: Iterable[str]) -> None:
    """None of *tokens* reached anybody."""
    _absent(stage, tokens, stage.public())


def unwatched(stage: Stage, tokens: Iterable[str], parent_id: str = "") -> None:
    """None of *tokens* was observed; below a call, what was observed there alone counts."""
    _absent(stage, tokens, stage.watched(parent_id))


def _absent(stage: Stage, tokens: Iterable[str], public: str) -> None:
    seen = {token: public[max(0, at - 150) : at + 50] for token in tokens if (at := public.find(token)) >= 0}
    assert not seen, f"{stage.path.name}: what was withheld is seen: {seen}"


def _unpaid(stage: Stage, event: e.ReserveEvent) -> None:
    what = next(what for what, operation in _PAID.items() if operation == event.operation)
    begun = len(stage.log.of(what))
    granted = sum(each.value.operation == event.operation for each in stage.log.of("granted"))
    assert begun <= granted, f"{stage.path.name}: {begun} attempts at {event.operation}, {granted} of them paid for"


def _unrecorded(stage: Stage, made: DecisionMade) -> None:
    if made.operation == "tool_call":
        _not_run(stage, MARK.findall(made.arguments_json.decode()))
    else:
        _nothing(stage, stage.log.after("hit", until="recorded"), f"the {made.operation} went on without a record")


def _asked_about(stage: Stage) -> Any:
    asked = [each for each in stage.log.noted if each.what in ("asking", "hit")]
    hit = next(place for place, each in enumerate(asked) if each.what == "hit")
    return asked[hit - 1].value


# ---- what is changed is what counts -----------------------------------------------------


def changed_counts(stage: Stage, hook: str, event: Any) -> None:
    """What the probe's transform *hook* made of *event* was executed, or seen, and what it replaced is nowhere.

    Policies, too, were asked about what it made, and not about what there was before.
    """
    log = stage.log
    unchanged = [each for each in log.of("judged") if not _is_changed(hook, each.value)]
    assert not unchanged, f"{stage.path.name}: {judge_of(hook)} was asked about what there was before {hook}"
    assert log.of("judged") or judge_of(hook) is None, f"{stage.path.name}: {judge_of(hook)} was not asked"
    match hook:
        case "select_tools":
            offered = [spec.name for each in log.of("asked") for spec in each.value.tools]
            assert not offered, f"{stage.path.name}: tools were offered that a plugin took out: {offered}"
        case "transform_model_request":
            sent = log.of("asked", "counted")
            others = [each for each in sent if each.value.parameters.temperature != TEMPERATURE]
            assert not others, f"{stage.path.name}: a model was asked otherwise than a plugin wanted"
        case "transform_tool_call":
            others = [each for each in log.of("ran") if not each.value.endswith(CHANGED_MARK)]
            _nothing(stage, others, "the unchanged call was run")
        case "transform_embedding_request":
            texts = [each.value.texts for each in log.of("embedded")]
            assert all(text.startswith("clean-") for given in texts for text in given), (
                f"{stage.path.name}: {texts} were embedded instead of what a plugin made of them"
            )
        case "transform_memory_write":
            texts = [text for each in log.of("wrote") for _, text in each.value if text]
            assert texts == ["clean-new"], f"{stage.path.name}: {texts} was saved instead of what a plugin made of it"
        case _:
            replaced = _WORDS[hook]
            unseen(stage, [f"{word}-" for word in replaced])
            if hook == "transform_output":
                unwatched(stage, ["result-"])
            if _TOKEN.search(repr(event)):
                assert "clean-" in stage.public(), f"{stage.path.name}: what {hook} returned was not seen"


def _is_changed(hook: str, event: Any) -> bool:
    """Say whether what is decided on is what the probe's transform *hook* makes."""
    match event:
        case e.ModelRequestEvent():
            return bool(event.request.parameters.temperature == TEMPERATURE)
        case e.ToolCallEvent():
            text = event.arguments_json.decode()
            return all(text.startswith(CHANGED_MARK, mark.end()) for mark in MARK.finditer(text))
        case e.EmbeddingRequestEvent():
            return all(text.startswith("clean-") for text in event.request.texts)
        case e.MemoryWriteEvent():
            return all(not item.text or item.text.startswith("clean-") for item in event.items)
        case _:
            seen = repr([getattr(event, name, "") for name in ("message", "response", "output", "items")])
            return not any(f"{word}-" in seen for word in _WORDS[hook])


_WORDS = {
    "transform_input": ("said",),
    "transform_output": ("reply", "shown"),
    "transform_model_response": ("reply", "answer"),
    "transform_embedding_response": ("vector",),
    "transform_delta": ("reply",),
    "transform_tool_result": ("result", "shown"),
    "transform_memory_result": ("kept",),
}
"""Which texts each transform of results and edges replaces, wherever they would have gone."""
