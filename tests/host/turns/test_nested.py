"""What a tool asks of the host: every bit of it an operation of its own, under the same policies, within its call."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
from each_of import shown
from fake_plugins import Person, about, plugin
from pluggent_hookspecs import (
    Allow,
    Ask,
    Denied,
    Deny,
    Image,
    Json,
    LimitReached,
    MemoryItem,
    Message,
    ModelParameters,
    ProviderError,
    ProviderErrorKind,
    Respond,
    ToolCall,
    ToolContext,
    ToolFinished,
    ToolOutput,
    ToolProgressed,
    ToolStarted,
    tool,
)
from pluggent_host.settings import Grants, HostSettings
from pluggent_testing.fakes import ScriptedModel, call
from pluggent_transcript.entries import Dispatched, Said, SessionBegan, TurnBegan
from pluggent_transcript.limits import Limits
from pluggent_transcript.rebuild import rebuild
from policy_stage import Danger, Store, either_way, results, run, stage, using
from talking import WAIT_S, talking

DANGER = "app:tools:tool/danger"
ASKS = HostSettings(effects={DANGER: ("shell",)})
WHY = "the server 'far' asks for a summary"


@pytest.fixture
def danger() -> Danger:
    return Danger()


def calls_danger(path: str = "x") -> Callable[[ToolContext], Awaitable[ToolOutput]]:
    return lambda context: context.call_tool("danger", {"path": path})


def asks_model(prompt: Any = "a question", **more: Any) -> Callable[[ToolContext], Awaitable[Any]]:
    return lambda context: context.call_model(prompt, **more)


def below(answer: Any) -> Any:
    """Return a hook that answers *answer* about operations below a tool."""
    return lambda event: answer if event.scope.origin == "tool" else None


# ---- another tool


async def test_a_nested_call_is_decided_below_its_parent_with_an_id_of_its_own(danger: Danger) -> None:
    user, outcome = using(calls_danger())
    tools = [*danger.tools(), user]
    async with stage(call("user"), tools=tools, principal="ada", channel="c", chat_id="1") as on:
        await on.session.say("go")

    outer, inner = on.decisions("tool_call")
    assert (outcome, danger.ran, results(on.session.history)) == ([ToolOutput("did x")], ["x"], ["used"])
    assert (inner.scope.parent_id, inner.scope.origin) == (outer.operation_id, "tool")
    assert inner.operation_id != outer.operation_id
    assert inner.call_id != outer.call_id
    for made in (outer, inner):
        assert (made.scope.principal, made.scope.channel, made.scope.chat_id) == ("ada", "c", "1")


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("answer", [Deny("no"), Ask("?"), True, ValueError], ids=shown)
async def test_a_denied_nested_call_is_not_run_and_the_tool_reads_why(answer: object, turned: bool) -> None:
    danger = Danger()
    plugins = either_way(about("danger", answer), about("user", Allow()), turned=turned)

    (output,), on = await run(calls_danger(), danger, plugins=plugins)

    assert (danger.ran, output.is_error) == ([], True)
    assert str(output.for_model).startswith("Denied:")
    assert [event.name for event in on.recorder.of(ToolStarted)] == ["user"]


async def test_the_approval_of_the_outer_call_does_not_cover_the_inner_one(danger: Danger) -> None:
    """Rule 19."""
    person = Person(True, False)
    config = HostSettings(effects={DANGER: ("shell",), "app:tools:tool/user": ("shell",)})

    (output,), _ = await run(calls_danger(), danger, config=config, approver=person)

    assert [event.capability for event in person.asked] == ["app:tools:tool/user", DANGER]
    assert (danger.ran, output.is_error) == ([], True)


async def test_an_ask_below_a_call_without_an_approver_is_a_denial_and_never_a_pause(danger: Danger) -> None:
    """Rule 19."""
    (output,), on = await run(calls_danger(), danger, "and on", config=ASKS._replace(on_ask="pause"))

    assert (danger.ran, len(on.model.requests)) == ([], 2)
    assert "no approver answered" in output.for_model


async def test_what_a_person_refused_stays_refused_for_the_model_and_its_tools(danger: Danger) -> None:
    """Rule 17."""
    model_first, tool_first = (call("danger", path="x"), call("user")), (call("user"), call("danger", path="x"))

    async def twice(context: ToolContext) -> None:
        await context.call_tool("danger", {"path": "x"})
        await context.call_tool("danger", {"path": "x"})

    for replies in (model_first, tool_first):
        person, (user, _) = Person(False), using(twice)
        async with stage(*replies, tools=[*danger.tools(), user], config=ASKS, approver=person) as on:
            await on.session.say("go")

        assert (len(person.asked), danger.ran) == (1, [])


async def test_the_outer_clock_stops_while_a_person_thinks(danger: Danger) -> None:
    async def think(event: object) -> bool:
        await asyncio.sleep(0.15)
        return True

    outcome, on = await run(calls_danger(), danger, timeout_s=0.05, config=ASKS, approver=think)

    assert (danger.ran, outcome, on.read_by_model()) == (["x"], [ToolOutput("did x")], ["used"])


async def test_a_deny_below_a_tool_can_end_the_turn(danger: Danger) -> None:
    _, on = await run(calls_danger(), danger, "never said", plugins=[about("danger", Deny("stop", ends_turn=True))])

    assert len(on.model.requests) == 1


@pytest.mark.parametrize(
    "arguments",
    [{}, {"path": 1}, {"path": "x", "more": 1}, {"path": float("nan")}, {"path": "\ud800"}, {"path": object()}, {1: 2}],
    ids=shown,
)
async def test_the_arguments_of_a_nested_call_are_checked_like_a_models(arguments: Any) -> None:
    danger = Danger()

    outcome, on = await run(lambda context: context.call_tool("danger", arguments), danger)

    assert isinstance(outcome[0], Exception)
    assert (danger.ran, len(on.decisions("tool_call"))) == ([], 1)


async def test_arguments_cannot_be_edited_while_a_nested_call_is_decided(danger: Danger) -> None:
    arguments: dict[str, Json] = {"path": "x"}

    async def edit(event: Any) -> None:
        if event.tool.name == "danger":
            arguments["path"] = "evil"
            await asyncio.sleep(0)

    await run(lambda context: context.call_tool("danger", arguments), danger, plugins=[plugin(decide_tool_call=edit)])

    assert danger.ran == ["x"]


async def test_an_unknown_tool_is_an_error_with_the_nearest_name(danger: Danger) -> None:
    outcome, _ = await run(lambda context: context.call_tool("dangr", {}), danger)

    assert "danger" in str(outcome[0])


async def test_transforms_and_result_hooks_see_nested_calls_too(danger: Danger) -> None:
    hooks = plugin(
        transform_tool_call=lambda event: {"path": "rewritten"} if event.tool.name == "danger" else None,
        transform_tool_result=lambda event: ToolOutput("redacted") if event.tool.name == "danger" else None,
    )

    outcome, on = await run(calls_danger(), danger, plugins=[hooks])

    assert (danger.ran, outcome) == (["rewritten"], [ToolOutput("redacted")])
    finished = {event.name: event.output.for_model for event in on.recorder.of(ToolFinished)}
    assert finished == {"danger": "redacted", "user": "used"}


async def test_delegation_has_a_depth() -> None:
    depths: list[int] = []

    @tool(effects=())
    async def again(depth: int, context: ToolContext) -> str:
        """Call itself."""
        depths.append(depth)
        await context.call_tool("again", {"depth": depth + 1})
        return "back"

    config = HostSettings(limits=Limits(delegation_depth=3))
    async with stage(call("again", depth=0), tools=[again], config=config) as on:
        await on.session.say("go")

    assert depths == [0, 1, 2, 3]


async def test_a_response_to_a_nested_call_needs_no_run(danger: Danger) -> None:
    outcome, _ = await run(calls_danger(), danger, plugins=[about("danger", Respond("cached"))])

    assert (outcome, danger.ran) == ([ToolOutput("cached")], [])


async def test_a_nested_effect_makes_the_decisions_on_its_siblings_old() -> None:
    """Rule 18: an effect is an effect, whatever caused it."""
    danger, late = Danger(), list[str]()
    user, _ = using(calls_danger())

    @tool(name="late", exclusive=True)
    async def late_one() -> str:
        """Come late."""
        late.append("late")
        return "late"

    policy = plugin(decide_tool_call=lambda event: Deny("") if event.tool.name == "late" and danger.ran else None)
    async with stage((call("user"), call("late")), tools=[*danger.tools(), user, late_one], plugins=[policy]) as on:
        await on.session.say("go")

    assert (danger.ran, late) == (["x"], [])


async def test_a_granted_plugin_may_lift_the_hosts_ask_below_a_call_as_above(danger: Danger) -> None:
    config = ASKS._replace(grants=Grants(may_allow=("app:policy",)))

    await run(calls_danger(), danger, plugins=[about("danger", Allow())], config=config)

    assert danger.ran == ["x"]


# ---- effects once, and on record


async def test_a_nested_effect_is_dispatched_in_the_record_before_it_runs() -> None:
    seen: list[str] = []

    @tool
    async def look() -> str:
        """Look what is recorded already."""
        seen.extend(id for entry in on.session.records() if isinstance(entry, Dispatched) for id, _, _ in entry.calls)
        return "seen"

    user, _ = using(lambda context: context.call_tool("look", {}))
    async with stage(call("user"), tools=[look, user]) as on:
        await on.session.say("go")

    assert len(seen) == 1


async def test_every_nested_call_has_a_key_of_its_own() -> None:
    keys: list[str] = []

    @tool(effects=())
    async def key(context: ToolContext) -> str:
        """Tell the key."""
        keys.append(context.idempotency_key)
        return "k"

    async def twice(context: ToolContext) -> None:
        keys.append(context.idempotency_key)
        await context.call_tool("key", {})
        await context.call_tool("key", {})

    user, _ = using(twice)
    async with stage((call("user", "a"), call("user", "b")), tools=[key, user]) as on:
        await on.session.say("go")

    assert len(keys) == len(set(keys)) == 6


async def test_a_nested_call_that_was_interrupted_asks_before_it_runs_again() -> None:
    ran: list[str] = []

    @tool
    async def hang() -> str:
        """Hang, the first time."""
        ran.append("hang")
        if len(ran) == 1:
            await asyncio.Event().wait()
        return "done"

    user, _ = using(lambda context: context.call_tool("hang", {}), timeout_s=0.05)
    async with stage(call("user", "one"), call("user", "two"), tools=[hang, user]) as on:
        await on.session.say("go")

    assert ran == ["hang"]


def test_a_nested_call_that_a_crash_interrupted_is_unsure() -> None:
    entries = [
        SessionBegan("s", 0.0),
        TurnBegan("t1", 0.0),
        Said("t1", Message.user("go")),
        Said("t1", Message.assistant((), (ToolCall("c", "user"),))),
        Dispatched("t1", (("t1.0.0.1", "s.t1.0.0.1", "fingerprint of the nested call"),)),
    ]

    assert rebuild(entries).unsure == {"fingerprint of the nested call"}


# ---- after the call


async def test_a_context_does_nothing_after_its_call(danger: Danger) -> None:
    kept: list[ToolContext] = []
    user, _ = using(lambda context: asyncio.sleep(0, kept.append(context)))

    async with stage(call("user"), tools=[*danger.tools(), user]) as on:
        await on.session.say("go")
        (context,) = kept
        assert context.cancelled
        for use in (context.call_tool("danger", {"path": "x"}), context.call_model("hello")):
            with pytest.raises(LimitReached):
                await use
        with pytest.raises(LimitReached):
            context.memory()
        context.progress(1.0)
        await asyncio.sleep(0)

    assert (danger.ran, len(on.model.requests), on.recorder.of(ToolProgressed)) == ([], 2, [])


async def test_a_call_that_timed_out_calls_nothing_any_more(danger: Danger) -> None:
    over = asyncio.Event()

    async def stubborn(context: ToolContext) -> Any:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            try:
                return await context.call_tool("danger", {"path": "x"})
            finally:
                over.set()

    await run(stubborn, danger, timeout_s=0.05)

    assert (over.is_set(), danger.ran) == (True, [])


@pytest.mark.parametrize("what", ["call", "memory"])
async def test_what_a_tool_has_begun_is_cancelled_with_its_call_before_anybody_is_asked(
    what: str, danger: Danger
) -> None:
    go_on, left, store, person = asyncio.Event(), list[Any](), Store(), Person(True)

    async def slow(event: Any) -> None:
        if event.scope.origin == "tool":
            await go_on.wait()

    async def leave(context: ToolContext) -> None:
        memory = context.memory()
        begun = {
            "call": context.call_tool("danger", {"path": "x"}) if what == "call" else None,
            "memory": memory.save([MemoryItem("n", "k", "v")]) if what == "memory" else None,
        }
        left.extend((asyncio.create_task(begun[what]), memory))  # type: ignore[arg-type]
        await asyncio.sleep(0)

    user, _ = using(leave)
    policy = plugin(decide_tool_call=slow, decide_memory_write=slow)
    async with talking(
        tools=[user, *danger.tools()], policies=[policy], plugins=[store], config=ASKS, approver=person
    ) as session:
        assert (await session.call_tool("user", {})).for_model == "used"
        go_on.set()
        task, memory = left
        await asyncio.wait((task,), timeout=WAIT_S)
        with pytest.raises(LimitReached):
            await memory.get("n", "k")

    assert (task.cancelled(), person.asked, danger.ran, store.calls) == (True, [], [], [])


# ---- the model


@pytest.mark.parametrize("answer", [Deny("no"), Ask("?"), True, "allow", ValueError], ids=shown)
async def test_a_denied_nested_model_call_is_not_sent(answer: object, danger: Danger) -> None:
    outcome, on = await run(asks_model(), danger, "done", plugins=[plugin(decide_model_request=below(answer))])

    assert isinstance(outcome[0], Denied)
    assert all("a question" not in repr(request) for request in on.model.requests)


async def test_a_nested_model_call_gets_its_conversation_alone_without_tools(danger: Danger) -> None:
    conversation = [Message.user("one"), Message.assistant("two"), Message.user("three")]
    for prompt, texts in (("a question", ["a question"]), (conversation, ["one", "two", "three"])):
        use = asks_model(prompt, system="be short", parameters=ModelParameters(seed=1, max_output_tokens=9))
        outcome, on = await run(use, danger, "an answer")

        inner = on.model.requests[1]
        assert [message.text for message in inner.messages] == ["be short", *texts]
        assert (inner.tools, inner.parameters.seed, inner.parameters.max_output_tokens) == ((), 1, 9)
        assert outcome[0].message.text == "an answer"


async def test_a_nested_model_call_passes_transforms_and_result_hooks_and_counts(danger: Danger) -> None:
    rewritten, redacted = Message.user("rewritten"), Message.assistant("redacted")
    hooks = plugin(
        transform_model_request=lambda e: below(attrs.evolve(e.request, messages=(rewritten,)))(e),
        transform_model_response=lambda e: below(attrs.evolve(e.response, message=redacted))(e),
    )

    outcome, on = await run(asks_model(), danger, "an answer", plugins=[hooks])

    assert on.model.requests[1].messages == (rewritten,)
    assert (outcome[0].message.text, on.session.usage.total) == ("redacted", 45)


async def test_calls_in_a_nested_reply_are_not_run(danger: Danger) -> None:
    outcome, _ = await run(asks_model(), danger, call("danger", path="x"))

    assert outcome[0].message.tool_calls
    assert danger.ran == []


async def test_the_failure_of_a_nested_model_call_is_the_tools_to_handle(danger: Danger) -> None:
    error = ProviderError(ProviderErrorKind.UNAVAILABLE, "gone")

    outcome, on = await run(asks_model(), danger, error)

    assert (outcome, on.read_by_model()) == ([error], ["used"])


async def test_nothing_of_a_nested_reply_is_shown_in_a_stream() -> None:
    user, _ = using(asks_model())

    async with stage(call("user"), "private answer", "done", tools=[user]) as on, on.session.stream("go") as events:
        assert "private answer" not in repr([event async for event in events])


@pytest.mark.parametrize(
    ("prompt", "says"),
    [
        ([], "there is no message in it"),
        ([Message.system("obey")], "a message of role system"),
        ([Message.assistant("x", tool_calls=(ToolCall("1", "danger", "{}"),))], "with calls of tools"),
        (["text"], "expected text or messages, got str"),
    ],
)
async def test_a_prompt_that_is_not_a_conversation_is_the_tools_mistake(prompt: Any, says: str, danger: Danger) -> None:
    outcome, _ = await run(asks_model(prompt), danger, "done")

    assert isinstance(outcome[0], ValueError | TypeError)
    assert says in str(outcome[0])


# ---- the model, with the agreement of a person


async def test_a_person_who_agrees_lets_the_call_through_and_reads_the_whole_conversation(danger: Danger) -> None:
    person = Person(True)
    conversation = [Message.user("one\ntwo\x1b[2J"), Message.assistant("three"), Message.user((Image(data="AAAA"),))]
    use = asks_model(conversation, system="be\u202eshort", parameters=ModelParameters(max_output_tokens=9), ask=WHY)

    outcome, on = await run(use, danger, "a summary", approver=person)

    (event,) = person.asked
    question = f"'app:tools', for its tool 'user', wants to ask the model: {WHY}"
    assert outcome[0].message.text == "a summary"
    assert (event.asks, event.operation, event.reach) == ((("host:doubt", question),), "model_call", "once")
    assert [made.verdict for made in on.decisions("model_call")] == ["allow", "ask", "approved", "allow"]
    assert event.rendered.split("\n") == [
        "ask m at memory:, at most 9 tokens back:", "system | be\\u202eshort", "user | one", "user | two\\x1b[2J",
        "assistant | three", "user | [image]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("person", "answer", "asked"),
    [
        (Person(False), None, 1),
        (Person(None), None, 1),
        (None, None, 0),
        (None, Allow("always"), 0),
        (Person(True), Deny("no"), 0),
    ],
    ids=["no", "silent", "no person", "a policy that allows takes no person's place", "a denial is not asked about"],
)
async def test_without_a_person_who_agrees_nothing_is_sent(
    person: Person | None, answer: object, asked: int, danger: Danger
) -> None:
    policy = plugin(decide_model_request=below(answer))

    outcome, on = await run(asks_model("sum it up", ask=WHY), danger, "done", approver=person, plugins=[policy])

    assert isinstance(outcome[0], Denied)
    assert all("sum it up" not in repr(request) for request in on.model.requests)
    assert asked == (len(person.asked) if person else 0)


@pytest.mark.parametrize(
    ("answers", "limits", "asked", "reason"),
    [
        ((False, True), Limits(), 1, "a person has already refused exactly this model call"),
        ((True, True), Limits(asks=2), 2, "this turn has asked a person too often"),
    ],
)
async def test_a_person_is_asked_once_about_what_is_refused_and_only_so_often_in_a_turn(
    answers: Any, limits: Limits, asked: int, reason: str, danger: Danger
) -> None:
    person = Person(*answers)

    async def thrice(context: ToolContext) -> str:
        outcomes = [""]
        for number in range(3):
            try:
                await context.call_model(f"question {number if answers[0] else 'again'}", ask=WHY)
            except Denied as error:
                outcomes.append(error.reason)
        return outcomes[-1]

    outcome, _ = await run(thrice, danger, "a", "b", "done", approver=person, limits=limits)

    assert (outcome, len(person.asked)) == ([reason], asked)


async def test_another_model_in_its_place_needs_the_same_agreement() -> None:
    class Other(ScriptedModel):
        name = "other"

    async def fall_back(event: Any, call_next: Any) -> Any:
        try:
            return await call_next()
        except ProviderError:
            return await call_next.reissue(event.request, model="other/small")

    person, other = Person(True, False), Other("from the other")
    user, outcome = using(asks_model("sum it up", ask=WHY))
    down, plugins = ProviderError(ProviderErrorKind.UNAVAILABLE, "down"), [other, plugin(around_model_call=fall_back)]
    async with stage(call("user"), down, "done", tools=[user], plugins=plugins, approver=person) as on:
        await on.session.say("go")

    assert isinstance(outcome[0], Denied)
    assert (len(person.asked), other.requests) == (2, [])
