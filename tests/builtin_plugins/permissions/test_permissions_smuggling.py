"""Attempts to smuggle something past a policy on arguments, end to end."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from permitting import rule, under
from pluggent_hookspecs import Message, ModelResponse, ToolCall, ToolOutput, ToolSpec, tool
from pluggent_testing.fakes import call as model_calls
from policy_stage import stage


def raw(name: str, text: str) -> ModelResponse:
    """Return a reply with a call whose arguments are exactly *text*."""
    return ModelResponse(Message.assistant("", tool_calls=(ToolCall("c1", name, text),)))


class Fetch:
    """A tool that would fetch, and a list of what it was asked for."""

    def __init__(self) -> None:
        self.fetched: list[Any] = []

    def tools(self) -> list[Any]:
        @attrs.frozen
        class Request:
            url: str
            method: str = "GET"

        @tool(effects=("network_read",))
        async def fetch(url: str = "http://169.254.169.254/latest", proxy: str | None = None) -> str:
            """Fetch a page."""
            self.fetched.append(url)
            return "page"

        @tool(effects=("network_read",))
        async def fetch_many(requests: list[Request], note: str = "") -> str:
            """Fetch pages."""
            self.fetched.extend(request.url for request in requests)
            return "pages"

        return [fetch, fetch_many]


OURS = {"url": {"scheme": "https", "host": ["good.example", "*.good.example"]}}
ONLY_OURS = rule(
    "only-ours", "allow",
    when={
        "tool": "app:tools:tool/fetch",
        "arguments": {"url": OURS, "proxy": {"host": {"name": "proxy.good.example"}, "optional": True}},
    },
)  # fmt: skip
NOT_INSIDE = rule(
    "ssrf", "deny", when={"effects": "network_read", "arguments": {"url": {"url": {"address": "internal"}}}}
)
MANY = rule("many", "allow", when={"tool": "app:tools:tool/fetch_many", "arguments": {"requests.*.url": OURS}})


async def attempt(fetch: Fetch, reply: Any, *rules: Any, default: str = "deny") -> list[str]:
    options = under(*rules, granted=True, defaults={"network_read": default})
    async with stage(reply, tools=fetch.tools(), **options) as on:
        await on.session.say("go")
        return on.read_by_model()


@pytest.mark.parametrize(
    "text",
    [
        '{"url": "https://good.example", "url": "https://evil.example"}',
        '{"url": "https://evil.example"}',
        '{"url": "https://good.example@evil.example"}',
        '{"url": "https://evil.example\\\\@good.example"}',
        '{"url": "https://good.example\\u2100.evil.example"}',
        '{"url": "https://g\\u043eod.example"}',
        '{"url": "https://good.example\\uff0f.evil.example"}',
        '{"url": "https://good.example%2f.evil.example"}',
        '{"url": "https://good.example.evil.example"}',
        '{"url": " https://good.example"}',
        '{"url": "http://good.example"}',
        '{"url": null}',
        '{"url": ["https://good.example"]}',
        '{"url": {"host": "good.example"}}',
        '{"URL": "https://good.example"}',
        '{"url": "https://good.example", "URL": "https://evil.example"}',
        '{"url": "https://good.example", "proxy": "proxy.evil.example"}',
        '{"url": "https://good.example", "proxy": "proxy.good.example@evil.example"}',
        '{"url": "https://good.example", "proxy": ""}',
        "{}",
        "",
        "[]",
        "{",
    ],
)
async def test_nothing_but_our_pages_is_fetched(text: str):
    fetch = Fetch()

    await attempt(fetch, raw("fetch", text), ONLY_OURS)

    assert fetch.fetched == []


@pytest.mark.parametrize(
    "text",
    [
        '{"url": "https://good.example"}',
        '{"url": "https://evil.example", "url": "https://good.example"}',  # the last one counts, for everybody
        '{"url": "https://a.b.good.example:8443/x?y=https://evil.example#z", "proxy": null}',
        '{"url": "https://good.example", "proxy": "proxy.good.example:3128"}',
    ],
)
async def test_our_pages_are_fetched(text: str):
    fetch = Fetch()

    assert await attempt(fetch, raw("fetch", text), ONLY_OURS) == ["page"]
    assert len(fetch.fetched) == 1
    assert "good.example" in fetch.fetched[0].partition("?")[0]


@pytest.mark.parametrize(
    "url",
    [
        None, "http://169.254.169.254/", "http://2852039166/", "http://0xA9.0xFE.0xA9.0xFE/", "http://[::ffff:a9fe:a9fe]/",
        "http://metadata.google.internal./", "http://localhost:6379", "http://127.1", "http://0/", "http://[::]/",
        "http://\u2460\u2461\u2466.1/", "http://10.0.0.1", "http://intranet/", "gopher://127.0.0.1", "http://user@10.0.0.1/",
        "//169.254.169.254/", "http:/127.0.0.1", "http://127.0.0.1%2f@example.org", "http://example.org\n@127.0.0.1",
    ],
)  # fmt: skip
async def test_no_spelling_leads_into_our_own_network(url: str | None):
    fetch = Fetch()

    # Without an argument the default that the tool itself fills in is what is judged.
    read = await attempt(
        fetch, model_calls("fetch", **({} if url is None else {"url": url})), NOT_INSIDE, default="allow"
    )

    assert read == ["Denied: this is not allowed here"]
    assert fetch.fetched == []


@pytest.mark.parametrize(
    "requests",
    [
        [{"url": "https://good.example"}, {"url": "https://evil.example"}],
        [{"url": "https://evil.example"}],
        [],
        "https://good.example",
    ],
)
async def test_values_deep_inside_are_judged_one_by_one(requests: Any):
    fetch = Fetch()

    await attempt(fetch, raw("fetch_many", json.dumps({"requests": requests})), MANY)

    assert fetch.fetched == []


async def test_values_deep_inside_are_permitted_if_all_are():
    fetch = Fetch()
    requests = [{"url": "https://good.example"}, {"url": "https://a.good.example"}]

    assert await attempt(fetch, raw("fetch_many", json.dumps({"requests": requests})), MANY) == ["pages"]


async def test_a_schema_that_lets_more_in_does_not_let_it_past():
    ran: list[Mapping[str, Any]] = []

    class Open:
        spec = ToolSpec(
            "send",
            parameters={
                "type": "object",
                "properties": {"to": {"type": "string", "default": "boss@good.example"}},
                "additionalProperties": True,
            },
            effects=("messaging",),
        )

        async def call(self, arguments: Mapping[str, Any], context: Any) -> ToolOutput:
            ran.append(arguments)
            return ToolOutput("sent")

    ours_only = rule(
        "ours", "deny", when={"effects": "messaging"},
        unless={"arguments": {"*": {"glob": "*@good.example"}}},
    )  # fmt: skip
    options = under(ours_only, granted=True, mode="autonomous")
    attempts = [{}, {"to": "x@good.example"}, {"bcc": "x@evil.example"}, {"to": "x@good.example", "cc": {"a": "b"}}]
    for arguments in attempts:
        async with stage(model_calls("send", **arguments), tools=[Open()], **options) as on:
            await on.session.say("go")

    assert ran == [{"to": "boss@good.example"}, {"to": "x@good.example"}]


async def test_a_hostile_argument_costs_no_more_than_its_length():
    fetch = Fetch()
    patterns = rule(
        "p", "deny",
        when={"effects": "network_read", "arguments": {"url": {"regex": "(a|a)*(aa|a)+b", "glob": "*a*a*a*a*b"}}},
    )  # fmt: skip
    for text in ("a" * 100_000, "\u0301\u0316" * 100_000, "http://" + "a." * 50_000, "http://" + "[" * 100_000):
        async with asyncio.timeout(5):
            (read,) = await attempt(fetch, model_calls("fetch", url=text), patterns, NOT_INSIDE, default="allow")
        assert read == "page" if fetch.fetched else read.startswith(("Denied: ", "Error: "))
        fetch.fetched.clear()
