"""Batches: each request is decided about and charged by itself, each result passes the hooks, nothing is paid twice."""

from collections.abc import AsyncGenerator
from typing import Any

import attrs
import pytest
from pluggent_contract_values.as_json import from_json, to_json
from pluggent_hookspecs import (
    Ask,
    BatchResult,
    ConfigError,
    Deny,
    HostedTool,
    Message,
    ModelCalled,
    ModelRequest,
    ModelResponse,
    ProviderError,
    ProviderErrorKind,
    SubmissionInDoubt,
    ToolSpec,
    hookimpl,
)
from pluggent_host import Batch, NoBatches, SyncHost
from pluggent_testing.fakes import Recorder, ScriptedModel
from pluggent_testing.later.fakes import LaterModel, LaterVendor
from talking import hosting

DOUBT = SubmissionInDoubt(ProviderErrorKind.TIMEOUT, "no answer within 120 s")


def echo(request):
    """Answer with what was said."""
    return f"re: {request.messages[-1].text}"


class Policy:
    """Redacts, refuses, asks, counts."""

    def __init__(self):
        self.reserved, self.settled, self.around = [], [], []

    @hookimpl
    def transform_model_request(self, event):
        text = event.request.messages[-1].text
        if "secret" in text:
            return ModelRequest(event.request.model, (Message.user(text.replace("secret", "[…]")),))
        return None

    @hookimpl
    def decide_model_request(self, event):
        text = event.request.messages[-1].text
        if "bad" in text:
            return Deny("not that")
        return Ask("really?") if "ask" in text else None

    @hookimpl
    async def around_model_call(self, event, call_next):
        self.around.append(event.request.messages[-1].text)
        return await call_next()

    @hookimpl
    def reserve(self, event):
        self.reserved.append(event.run)
        return Deny("too dear") if event.run.endswith(".dear") else event.run

    @hookimpl
    def settle(self, event):
        self.settled.append((event.reservation, event.usage.input))

    @hookimpl
    def transform_model_response(self, event):
        text = event.response.message.text
        return ModelResponse(Message.assistant(text + "!")) if "loud" in text else None

    @hookimpl
    def decide_model_response(self, event):
        return Deny("not shown") if "hidden" in event.response.message.text else None


async def read(batches, batch, known=()):
    return {result.id: result async for result in batches.results(batch, known)}


async def test_each_request_has_a_decision_of_its_own_and_each_result_passes_the_hooks():
    vendor, policy, seen, asked = LaterVendor(), Policy(), Recorder(), []
    model = LaterModel(*[echo] * 9, vendor=vendor)
    kept = []

    async def keep(batch):
        kept.append((len(vendor.batches), batch.ticket is not None))

    texts = dict.fromkeys(("plain", "bad", "ask", "loud", "hidden", "dear"))
    requests = {id: id for id in texts} | {"redacted": "a secret"}
    async with hosting(model=model, plugins=[policy, seen], approver=lambda event: asked.append(event) or True) as host:
        batch = await host.batches.submit("later/m", requests, keep=keep)
        (_, sent) = next(iter(vendor.batches.values()))
        results = await read(host.batches, from_json(to_json(batch), Batch))

    assert kept == [(0, False), (1, True)]
    assert set(sent) == {"plain", "ask", "loud", "hidden", "redacted"}
    assert sent["redacted"].messages[-1].text == "a […]"
    assert {id: (one.outcome, one.message or one.response.message.text) for id, one in results.items()} == {
        "plain": ("done", "re: plain"),
        "ask": ("done", "re: ask"),
        "loud": ("done", "re: loud!"),
        "redacted": ("done", "re: a […]"),
        "hidden": ("failed", "denied by decide_model_response: not shown"),
        "bad": ("failed", f"denied by {results['bad'].message.split(' ')[2]} not that"),
        "dear": ("failed", f"denied by {results['dear'].message.split(' ')[2]} too dear"),
    }
    assert len(asked) == 1
    assert len(policy.around) == 5
    assert sorted(run for run, _ in policy.settled) == sorted(f"batch.{batch.key}.{id}" for id in sent)
    assert len(seen.of(ModelCalled)) == 5


async def test_results_are_read_again_by_another_host_and_those_that_are_known_are_left_out():
    vendor = LaterVendor()
    async with hosting(model=LaterModel(echo, echo, vendor=vendor)) as host:
        batch = await host.batches.submit("later/m", {"a": "1", "b": (Message.user("2"),)}, system="Be brief.")
        assert (await host.batches.state(batch)).ended
        first = await read(host.batches, batch)
    async with hosting(model=LaterModel(vendor=vendor)) as host:
        assert await read(host.batches, batch) == first
        assert set(await read(host.batches, batch, known=["a"])) == {"b"}
    assert len(vendor.batches) == 1


async def test_a_batch_whose_submission_was_not_answered_is_found_by_its_key():
    vendor = LaterVendor()
    async with hosting(model=LaterModel(echo, vendor=vendor, on_submit=[DOUBT])) as host:
        batch = await host.batches.submit("later/m", {"a": "1"})
        assert batch.ticket is not None

        kept = []

        async def keep(each):
            kept.append(each)
            raise KeyboardInterrupt  # the process dies before anything is sent

        with pytest.raises(KeyboardInterrupt):
            await host.batches.submit("later/m", {"a": "1"}, keep=keep)
        (unsent,) = kept
        assert await host.batches.find(unsent) == unsent
        with pytest.raises(ProviderError, match=r"look for it with find_batch|may not have been submitted"):
            await host.batches.state(unsent)
        again = await host.batches.submit("later/m", unsent.sent, key=unsent.key)
        assert (await host.batches.find(unsent)).ticket == again.ticket
    assert len(vendor.batches) == 2


async def test_what_cannot_be_a_batch_is_refused_before_anything_is_sent():
    tool = ToolSpec("look", "Look.", {"type": "object"})
    async with hosting(model=LaterModel(echo)) as host:
        for requests, problem in (
            ({}, "no request"),
            ({"a b": "x"}, "'a b' cannot be sent"),
            ({"x" * 65: "x"}, "1 to 64"),
        ):
            with pytest.raises(ValueError, match=problem):
                await host.batches.submit("later/m", requests)
        with pytest.raises(ConfigError):
            await host.batches.submit("nobody/m", {"a": "x"})
        hosted = ModelRequest("m", (Message.user("x"),), hosted=(HostedTool("later:hosted/web_search"),))
        with pytest.raises(ValueError, match="'a' has tools of the vendor"):
            await host.batches.submit("later/m", {"a": hosted})
        with_tool = ModelRequest("other", (Message.user("x"),), (tool,))
        batch = await host.batches.submit("later/m", {"a": with_tool})
        assert batch.items[0].request.model == "m"
        await host.batches.cancel(batch)
    async with hosting(model=ScriptedModel()) as host:
        with pytest.raises(NoBatches):
            await host.batches.submit("scripted/m", {"a": "x"})


async def test_a_stored_request_that_was_changed_is_no_result():
    async with hosting(model=LaterModel(echo)) as host:
        batch = await host.batches.submit("later/m", {"a": "x"})
        changed = from_json(to_json(batch).replace(b'"text":"x"', b'"text":"y"'), Batch)

        assert (await read(host.batches, changed))["a"].message.endswith("not the one that was decided about")


def test_batches_without_an_event_loop():
    with SyncHost.open(model="later/m", plugins=[LaterModel(echo, echo)], installed=False) as host:
        batch = host.batches.submit("later/m", {"a": "1", "b": "2"})
        assert host.batches.state(batch).ended
        assert {result.id for result in host.batches.results(batch)} == {"a", "b"}
        host.batches.cancel(batch)


async def test_policies_on_what_a_person_sees_decide_about_each_result():
    class Output:
        @hookimpl
        def transform_output(self, event):
            return Message.assistant(event.message.text.replace("card", "[…]"))

        @hookimpl
        def decide_output(self, event):
            return Deny("this stays inside") if "internal" in event.message.text else None

    model = LaterModel(echo, echo, vendor=LaterVendor())
    async with hosting(model=model, plugins=[Output()]) as host:
        batch = await host.batches.submit("later/m", {"a": "my card", "b": "internal"})
        results = await read(host.batches, batch)

    assert results["a"].response.message.text == "re: my […]"
    assert (results["b"].outcome, "this stays inside" in results["b"].message) == ("failed", True)


async def test_results_of_a_provider_that_lies_are_each_read_once_or_its_errors():
    model: Any = LaterModel(echo, echo, vendor=LaterVendor())
    no_reply: Any = "no reply"

    async def lying(ticket: object, requests: object) -> AsyncGenerator[Any]:
        first = BatchResult("a", "done", ModelResponse(Message.assistant("first")))
        yield (first, attrs.evolve(first, response=ModelResponse(Message.assistant("second"))))
        yield (attrs.evolve(first, id="foreign"), BatchResult("b", "done", no_reply))
        yield ("no result",)

    model.batch_results = lying
    async with hosting(model=model) as host:
        batch = await host.batches.submit("later/m", dict.fromkeys("abc", "hi"))
        results = []
        with pytest.raises(ProviderError, match="yielded str, not a BatchResult"):  # noqa: PT012 (a stream)
            async for result in host.batches.results(batch):
                results.append(result)  # noqa: PERF401 (what came before the error counts)

    assert [(each.id, each.outcome) for each in results] == [("a", "done"), ("b", "failed")]
    assert results[0].response.message.text == "first"
