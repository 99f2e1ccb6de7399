"""Texts embedded and tokens counted by a tool: operations below its call, under the policies of the turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fake_plugins import Person, plugin
from pluggent_hookspecs import (
    Ask,
    ConfigError,
    Denied,
    Deny,
    EmbeddingRequest,
    EmbeddingResponse,
    Message,
    ModelParameters,
    ModelRequest,
    ProvideEvent,
    ToolContext,
    Usage,
    Vectors,
    hookimpl,
)
from pluggent_host import Host, HostSettings, NoTokenCount
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from pluggent_transcript.entries import Spending
from pluggent_transcript.limits import Limits
from policy_stage import Danger, Stage, run, using

TEXTS = ("one", "two")
SPENT = 500


class Embedder:
    """Gives vectors of two numbers, and says what each text has cost in tokens."""

    name = "vectors"
    target = "https://vectors.test"

    def __init__(self) -> None:
        self.asked: list[EmbeddingRequest] = []

    async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
        self.asked.append(request)
        vectors = Vectors.of([(1.0, 0.0)] * len(request.texts))
        return EmbeddingResponse(vectors, Usage(input=SPENT * len(request.texts)), request.model)

    @hookimpl
    def provide_embedders(self, event: ProvideEvent) -> list[Any]:
        return [self]


class Counting(ScriptedModel):
    """Counts the letters of a request."""

    counted: tuple[ModelRequest, ...] = ()

    async def count(self, request: ModelRequest) -> int:
        self.counted = (*self.counted, request)
        return sum(len(message.text) for message in request.messages)


def embeds(model: str = "vectors/m", texts: Any = TEXTS, **more: Any) -> Callable[[ToolContext], Awaitable[Any]]:
    return lambda context: context.embed(model, texts, **more)


@pytest.fixture
def embedder() -> Embedder:
    return Embedder()


async def using_counts(
    use: Callable[[ToolContext], Awaitable[Any]], *plugins: object
) -> tuple[list[Any], Counting, Stage]:
    """Let a tool use a model that counts."""
    user, outcome = using(use)
    model, recorder = Counting(call("user"), "done"), Recorder()
    async with (
        Host.open(model="scripted/m", plugins=[model, recorder, *plugins], tools=[user], installed=False) as host,
        await host.session() as session,
    ):
        await session.say("go")
        return outcome, model, Stage(host, session, model, recorder)


async def test_a_tool_embeds_texts_below_its_call_and_the_turn_counts_what_it_used(embedder: Embedder) -> None:
    (response,), on = await run(embeds(role="query", dimensions=2), Danger(), "done", plugins=[embedder])

    (asked,) = embedder.asked
    (outer,), (inner,) = on.decisions("tool_call"), on.decisions("embedding")
    assert (asked.model, asked.texts, asked.role, asked.dimensions) == ("m", TEXTS, "query", 2)
    assert len(response.vectors) == 2
    assert (inner.scope.parent_id, inner.scope.origin) == (outer.operation_id, "tool")
    assert inner.operation_id.startswith(f"{outer.operation_id}.")
    spendings = [entry for entry in on.session.records() if isinstance(entry, Spending)]
    assert ("vectors/m", 2 * SPENT) in [(entry.model, entry.usage.input) for entry in spendings]
    assert (on.session.usage.input or 0) >= 2 * SPENT


async def test_what_is_embedded_counts_for_the_limits_of_the_turn(embedder: Embedder) -> None:
    config = HostSettings(limits=Limits(tokens=2 * SPENT - 1))

    _, on = await run(embeds(), Danger(), "never said", plugins=[embedder], config=config)

    assert len(on.model.requests) == 1


@pytest.mark.parametrize("answer", [Deny("for the model", tell_user="for the person"), Deny("no", ends_turn=True)])
@pytest.mark.parametrize("hook", ["decide_embedding_request", "decide_embedding_response"])
async def test_a_denied_embedding_is_not_made_and_the_tool_reads_what_is_for_the_model(
    embedder: Embedder, hook: str, answer: Deny
) -> None:
    policy = plugin(**{hook: lambda _: answer})

    (error,), on = await run(embeds(), Danger(), "done", plugins=[embedder, policy])

    assert isinstance(error, Denied)
    assert error.reason == answer.tell_model
    assert len(embedder.asked) == (hook == "decide_embedding_response")
    assert len(on.model.requests) == (1 if answer.ends_turn else 2)


async def test_what_a_person_refused_is_not_asked_again_in_the_turn(embedder: Embedder) -> None:
    person = Person(False)

    async def twice(context: ToolContext) -> list[str]:
        reasons: list[str] = []
        for _ in range(2):
            try:
                await context.embed("vectors/m", TEXTS)
            except Denied as error:
                reasons.append(error.reason)
        return reasons

    policy = plugin(decide_embedding_request=lambda _: Ask("send these texts?"))
    (reasons,), _ = await run(twice, Danger(), plugins=[embedder, policy], approver=person)

    assert (len(reasons), len(person.asked), embedder.asked) == (2, 1, [])
    assert person.asked[0].rendered == "embed 2 texts by m at https://vectors.test:\none\ntwo"


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (embeds("nobody/m"), ConfigError),
        (embeds(role="else"), ValueError),
        (embeds(dimensions=0), ValueError),
        (embeds(texts=["a", 1]), ValueError),
    ],
)
async def test_what_no_embedder_takes_is_refused(embedder: Embedder, use: Any, kind: type[Exception]) -> None:
    (error,), _ = await run(use, Danger(), "done", plugins=[embedder])

    assert isinstance(error, kind)
    assert embedder.asked == []


async def test_an_embedding_ends_with_the_call_that_asked_for_it(embedder: Embedder) -> None:
    kept: list[ToolContext] = []

    async def keep(context: ToolContext) -> None:
        kept.append(context)

    await run(keep, Danger(), "done", plugins=[embedder])
    for late in (kept[0].embed("vectors/m", TEXTS), kept[0].count("a question")):
        with pytest.raises(Exception, match="tool_timeout_s"):
            await late

    assert embedder.asked == []


async def test_a_tool_lets_tokens_be_counted_of_what_it_would_ask() -> None:
    parameters = ModelParameters(temperature=0.5)
    (count,), model, on = await using_counts(
        lambda context: context.count("a question", system="be brief", parameters=parameters)
    )

    (asked,) = model.counted
    (inner,) = on.decisions("count")
    assert count == len("a question") + len("be brief")
    assert asked.messages == (Message.system("be brief"), Message.user("a question"))
    assert (asked.model, asked.parameters.temperature, inner.scope.origin) == ("m", 0.5, "tool")


async def test_a_count_that_a_policy_denies_reaches_no_vendor() -> None:
    def below(event: Any) -> Any:
        return Deny("for the model", tell_user="for the person") if event.scope.origin == "tool" else None

    (error,), model, _ = await using_counts(lambda context: context.count("q"), plugin(decide_model_request=below))

    assert isinstance(error, Denied)
    assert (error.reason, model.counted) == ("for the model", ())


async def test_a_provider_that_does_not_count_says_so() -> None:
    (error,), _ = await run(lambda context: context.count("q"), Danger(), "done")

    assert isinstance(error, NoTokenCount)
