"""Texts embedded through policies: nothing is sent that one of them denies, and nothing is paid for twice."""

import asyncio
import math
from typing import Any, cast

import attrs
import pytest
from each_of import shown
from fake_plugins import Person, plugin
from pluggent_hookspecs import (
    Allow,
    Ask,
    ConfigError,
    DecisionMade,
    Denied,
    Deny,
    EmbeddingIncomplete,
    EmbeddingRequest,
    EmbeddingResponse,
    HookError,
    ModelRetried,
    ProviderError,
    ProviderErrorKind,
    ReplyMeta,
    Respond,
    TextsEmbedded,
    Usage,
    Vectors,
)
from pluggent_host import Grants, Host, HostSettings, SyncHost
from pluggent_testing.fakes import Recorder, ScriptedEmbedder

MODEL = "scripted/m"
BROKEN = ProviderError(ProviderErrorKind.UNAVAILABLE, "gone", provider="scripted", meta=ReplyMeta("req_9"))


def settings(**grants: Any) -> HostSettings:
    return HostSettings(grants=Grants(**grants))


async def embedded(*plugins: object, texts: Any = ("one", "two"), **options: Any) -> EmbeddingResponse:
    asked = {name: options.pop(name) for name in ("role", "dimensions", "truncate", "principal") if name in options}
    async with Host.open(plugins=plugins, installed=False, **options) as host:
        return await host.embed(MODEL, texts, **asked)


def half(request: EmbeddingRequest) -> EmbeddingResponse:
    """Break off after the first text."""
    first = ScriptedEmbedder().vectors_of(attrs.evolve(request, texts=request.texts[:1]))
    raise EmbeddingIncomplete(BROKEN, attrs.evolve(first, usage=Usage(input=7)), len(request.texts))


async def test_texts_become_vectors_in_their_order():
    embedder = ScriptedEmbedder()

    response = await embedded(embedder, role="query", dimensions=4, truncate=True)

    assert embedder.requests == [EmbeddingRequest("m", ("one", "two"), "query", 4, truncate=True)]
    assert response == embedder.vectors_of(embedder.requests[0])
    assert (len(response.vectors), response.vectors.dimensions) == (2, 4)


async def test_no_texts_have_no_vectors():
    assert (await embedded(ScriptedEmbedder(), texts=())).vectors == Vectors()


def test_code_without_a_loop_embeds_too():
    with SyncHost.open(plugins=[ScriptedEmbedder()], installed=False) as host:
        assert len(host.embed(MODEL, ["one"]).vectors) == 1


@pytest.mark.parametrize("name", ["scripted", "/m", "scripted/", "other/m"])
async def test_a_model_without_an_embedder_is_a_config_error(name):
    async with Host.open(plugins=[ScriptedEmbedder()], installed=False) as host:
        with pytest.raises(ConfigError):
            await host.embed(name, ["one"])


@pytest.mark.parametrize(
    "asked",
    [
        {"texts": "one"},
        {"texts": [b"one"]},
        {"role": "other"},
        {"dimensions": 0},
        {"dimensions": True},
        {"dimensions": 2.0},
    ],
    ids=str,
)
async def test_what_no_embedder_can_answer_is_a_type_error(asked):
    with pytest.raises(TypeError):
        await embedded(ScriptedEmbedder(), **{"texts": ["one"], **asked})


# ---- policies


async def test_a_policy_sees_every_text_and_who_asks():
    seen: list[Any] = []

    await embedded(plugin(decide_embedding_request=seen.append), ScriptedEmbedder(), principal="ada")

    (event,) = seen
    assert event.request.texts == ("one", "two")
    assert (event.scope.principal, event.embedder, event.target) == (
        "ada",
        "app:scriptedembedder:embedder/scripted",
        "memory:",
    )
    assert len(event.digest) == 64


@pytest.mark.parametrize("answer", [Deny("no"), ValueError, "allow", Respond("words"), Respond(None)], ids=shown)
async def test_nothing_is_sent_that_a_policy_does_not_allow(answer):
    embedder = ScriptedEmbedder()

    with pytest.raises(Denied):
        await embedded(embedder, plugin(decide_embedding_request=answer), plugin(decide_embedding_request=Allow()))

    assert embedder.requests == []


@pytest.mark.parametrize("agreed", [True, False, None])
async def test_an_ask_is_put_to_an_approver_who_reads_every_text(agreed):
    embedder, person = ScriptedEmbedder(), Person(agreed)
    asking = embedded(embedder, plugin(decide_embedding_request=Ask("may it?")), approver=person)

    if agreed:
        await asking
    else:
        with pytest.raises(Denied):
            await asking

    (event,) = person.asked
    assert "one\ntwo" in event.rendered
    assert len(embedder.requests) == (1 if agreed else 0)


async def test_an_ask_without_an_approver_is_refused_with_its_reason():
    embedder = ScriptedEmbedder()

    with pytest.raises(Denied, match=r"may it\?: .* no approver answered"):
        await embedded(embedder, plugin(decide_embedding_request=Ask("may it?")))

    assert embedder.requests == []


async def test_what_a_transform_makes_of_the_texts_is_decided_and_sent():
    seen: list[Any] = []
    embedder = ScriptedEmbedder()
    cleaned = plugin(
        transform_embedding_request=lambda event: attrs.evolve(event.request, texts=("clean", "two")),
        decide_embedding_request=lambda event: seen.append(event.request.texts),
    )

    await embedded(embedder, cleaned)

    assert seen == [("clean", "two")] == [request.texts for request in embedder.requests]


@pytest.mark.parametrize(
    "value",
    [
        "text",
        EmbeddingRequest("m", ("one",)),
        EmbeddingRequest("m", cast("Any", ("one", 2))),
        EmbeddingRequest("m", ("a", "b"), cast("Any", "x")),
    ],
    ids=shown,
)
async def test_a_transform_cannot_make_another_number_of_texts_or_no_texts(value):
    embedder = ScriptedEmbedder()

    with pytest.raises(HookError, match="app:rewriter"):
        await embedded(embedder, plugin("Rewriter", transform_embedding_request=value))

    assert embedder.requests == []


async def test_a_policy_may_answer_from_a_cache():
    embedder, kept = ScriptedEmbedder(), EmbeddingResponse(Vectors.of([(1.0,), (2.0,)]), model="kept")

    assert await embedded(embedder, plugin(decide_embedding_request=Respond(kept))) == kept
    assert embedder.requests == []


@pytest.mark.parametrize("answer", [Deny("no"), ValueError, Ask("release?")], ids=shown)
async def test_vectors_that_a_policy_does_not_release_are_not_handed_out(answer):
    with pytest.raises(Denied):
        await embedded(ScriptedEmbedder(), plugin(decide_embedding_response=answer))


async def test_what_a_transform_makes_of_the_vectors_is_handed_out():
    ones = Vectors.of([(1.0,), (1.0,)])
    changer = plugin(transform_embedding_response=lambda event: attrs.evolve(event.response, vectors=ones))

    assert (await embedded(ScriptedEmbedder(), changer)).vectors == ones


@pytest.mark.parametrize(
    "value", ["text", EmbeddingResponse(Vectors.of([(1.0,)])), EmbeddingResponse(Vectors.of([(math.inf,), (1.0,)]))],
    ids=shown,
)  # fmt: skip
async def test_a_transform_cannot_lose_a_vector(value):
    with pytest.raises(HookError, match="no answer to these texts"):
        await embedded(ScriptedEmbedder(), plugin(transform_embedding_response=value))


async def test_requests_have_digests_of_their_own_and_one_for_each_text():
    recorder = Recorder()
    pairs = [("ab", "c"), ("a", "bc"), ("abc", "")]

    async with Host.open(plugins=[ScriptedEmbedder(), recorder], installed=False) as host:
        for pair in pairs:
            await host.embed(MODEL, pair)

    made = recorder.of(DecisionMade)
    assert [decision.operation for decision in made] == ["embedding"] * 3
    assert len({decision.digest for decision in made}) == 3


# ---- an embedder that fails


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("vectors", "it returned str"),
        (EmbeddingResponse([[1.0], [2.0]]), "its vectors are list"),  # type: ignore[arg-type]
        (EmbeddingResponse(Vectors.of([(1.0,)])), "it gave 1 vectors for 2 texts"),
        (EmbeddingResponse(Vectors.of([(1.0,)] * 3)), "it gave 3 vectors for 2 texts"),
        (EmbeddingResponse(Vectors.of([(math.nan,)] * 2)), "not finite"),
        (EmbeddingResponse(Vectors.of([(1.0,)] * 2), Usage(input=-1)), "usage that is not possible"),
    ],
    ids=str,
)
async def test_an_embedder_that_breaks_its_promise_is_a_protocol_error(given, problem):
    with pytest.raises(ProviderError, match=problem) as raised:
        await embedded(ScriptedEmbedder(given))

    assert raised.value.kind == "protocol"


async def test_vectors_of_other_dimensions_than_asked_for_are_refused():
    with pytest.raises(ProviderError, match="have 1 dimensions, not 4"):
        await embedded(ScriptedEmbedder(EmbeddingResponse(Vectors.of([(1.0,)] * 2))), dimensions=4)


@pytest.mark.parametrize("error", [RuntimeError("oh"), SystemExit(3), TimeoutError("hm"), KeyError("x")], ids=repr)
async def test_whatever_an_embedder_raises_is_a_provider_error(error):
    with pytest.raises(ProviderError, match="the plugin failed") as raised:
        await embedded(ScriptedEmbedder(error))

    assert raised.value.kind == "protocol"


async def test_an_embedder_that_hangs_is_given_up():
    class Hanging(ScriptedEmbedder):
        async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
            await asyncio.Event().wait()
            raise AssertionError

    base = HostSettings()
    config = base._replace(timeouts=base.timeouts._replace(model_s=0.01))
    with pytest.raises(ProviderError, match=r"no vectors within 0\.01 s") as raised:
        await embedded(Hanging(), config=config)

    assert raised.value.kind == "timeout"


async def test_a_cancelled_embedding_is_cancelled():
    begun = asyncio.Event()

    class Hanging(ScriptedEmbedder):
        async def embed(self, request: EmbeddingRequest) -> EmbeddingResponse:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

    task = asyncio.create_task(embedded(Hanging()))
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_vectors_that_came_before_a_failure_are_in_the_error():
    embedder = ScriptedEmbedder(half)

    with pytest.raises(EmbeddingIncomplete, match="1 of 2 texts were embedded, then: gone") as raised:
        await embedded(embedder)

    error = raised.value
    assert error.response.vectors == embedder.vectors_of(EmbeddingRequest("m", ("one",))).vectors
    assert (error.kind, error.response.usage, error.meta) == ("unavailable", Usage(input=7), ReplyMeta("req_9"))


async def test_vectors_that_came_before_a_failure_pass_the_result_hooks():
    with pytest.raises(Denied):
        await embedded(ScriptedEmbedder(half), plugin(decide_embedding_response=Deny("no")))


@pytest.mark.parametrize(
    "came", [EmbeddingResponse(cast("Any", [[1.0]])), EmbeddingResponse(Vectors.of([(math.nan,)]))], ids=str
)
async def test_what_is_no_vectors_is_not_kept(came):
    with pytest.raises(ProviderError, match="the plugin failed") as raised:
        await embedded(ScriptedEmbedder(EmbeddingIncomplete(BROKEN, came, 2)))

    assert raised.value.kind == "protocol"
    assert not isinstance(raised.value, EmbeddingIncomplete)


async def test_a_failure_before_the_first_vector_leaves_all_texts_for_the_next_attempt():
    nothing = EmbeddingIncomplete(BROKEN, EmbeddingResponse(Vectors()), 2)
    embedder = ScriptedEmbedder(nothing, half)

    response = await embedded(embedder, plugin(around_embedding_call=again_and_again))

    assert [request.texts for request in embedder.requests] == [("one", "two"), ("one", "two"), ("two",)]
    assert len(response.vectors) == 2


async def again_and_again(event: object, call_next: Any) -> Any:
    return await again(event, lambda: again(event, call_next))


async def again(event: object, call_next: Any) -> Any:
    try:
        return await call_next()
    except ProviderError:
        return await call_next()


async def test_another_attempt_sends_the_texts_that_are_left():
    embedder, recorder = ScriptedEmbedder(half), Recorder()

    response = await embedded(embedder, plugin(around_embedding_call=again), recorder)

    assert [request.texts for request in embedder.requests] == [("one", "two"), ("two",)]
    assert response.vectors == embedder.vectors_of(EmbeddingRequest("m", ("one", "two"))).vectors
    assert response.usage == Usage(input=7)
    assert [(event.model, event.attempt) for event in recorder.of(ModelRetried)] == [(MODEL, 2)]


async def test_attempts_that_all_fail_keep_what_each_of_them_brought():
    embedder = ScriptedEmbedder(half, half)

    with pytest.raises(EmbeddingIncomplete, match="2 of 3 texts") as raised:
        await embedded(embedder, plugin(around_embedding_call=again), texts=("one", "two", "three"))

    assert raised.value.response.vectors == embedder.vectors_of(EmbeddingRequest("m", ("one", "two"))).vectors
    assert raised.value.response.usage == Usage(input=14)


async def test_an_embedding_is_not_sent_elsewhere():
    async def elsewhere(event: Any, call_next: Any) -> Any:
        return await call_next.reissue(event.request, model="other/m")

    with pytest.raises(Exception, match="do not compare"):
        await embedded(ScriptedEmbedder(), plugin(around_embedding_call=elsewhere))


# ---- what it costs


async def test_ledgers_pay_for_each_attempt_and_price_it():
    seen: list[Any] = []
    ledger = plugin(
        reserve=lambda event: seen.append(event) or {"held": event.attempt},
        settle=lambda event: seen.append(event) or Usage(cost_usd=0.5),
    )

    response = await embedded(
        ScriptedEmbedder(half), plugin(around_embedding_call=again), ledger, texts=("a" * 8, "b" * 8)
    )

    reserved, settled, reserved_again, settled_again = seen
    assert (reserved.operation, reserved.model, reserved.input_tokens) == ("embedding", MODEL, 4)
    assert (settled.outcome, settled.usage) == ("failed", Usage(input=7))
    assert (reserved_again.attempt, reserved_again.input_tokens) == (2, 2)
    assert (settled_again.outcome, settled_again.usage) == ("done", Usage(input=2))
    assert response.usage == Usage(input=9, cost_usd=1.0)


async def test_a_ledger_that_refuses_keeps_texts_from_being_sent():
    embedder = ScriptedEmbedder()

    with pytest.raises(Denied, match="spent"):
        await embedded(embedder, plugin(reserve=Deny("spent"), settle=None))

    assert embedder.requests == []


@pytest.mark.parametrize("reply", [None, BROKEN, half], ids=["done", "failed", "half"])
async def test_observers_are_told_what_was_embedded(reply):
    recorder = Recorder()

    async with Host.open(plugins=[ScriptedEmbedder(reply), recorder], installed=False) as host:
        try:
            await host.embed(MODEL, ["four", "more"])
            problem = ""
        except ProviderError as error:
            problem = str(error)

    (event,) = recorder.of(TextsEmbedded)
    assert (event.model, event.texts) == (MODEL, 2)
    assert bool(event.error) is bool(problem)
    assert event.usage == {None: Usage(input=2), half: Usage(input=7)}.get(reply, Usage())
    assert event.meta == (ReplyMeta() if reply is None else ReplyMeta("req_9"))
