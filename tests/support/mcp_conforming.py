"""A client for the official conformance suite: lists the tools at a URL and calls them."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from mcp_using import Context, Used, using
from pluggent_hookspecs import Accepted, Message, ModelResponse, ToolError, thaw
from pluggent_mcp.settings import Server

SAMPLES: dict[str, Any] = {"string": "text", "integer": 2, "number": 2.5, "boolean": True, "array": [], "object": {}}
FOCAL = "peer__json_schema_2020_12_tool"
"""A tool whose schema the suite wants to have back."""


class Willing(Context):
    """Agrees to everything; a form is returned with its defaults alone, as the host fills them in."""

    async def call_model(self, prompt: Any, **options: Any) -> ModelResponse:
        return ModelResponse(Message.assistant("forty-two"), model="m-1")

    async def elicit(self, message: str, schema: Any, *, source: str = "") -> Accepted:
        properties = schema.get("properties", {})
        return Accepted({name: value["default"] for name, value in properties.items() if "default" in value})


async def conform(url: str, context: dict[str, Any]) -> str:
    """Use the server at *url*: make the calls that the suite wants, or one of each tool. Return what failed."""
    async with using(peer=Server(url=url, resources=True, prompts=True)) as used:
        for name, arguments in calls(used, context.get("toolCalls")):
            # Some tools are there to be refused: what is right the suite decides.
            with suppress(ToolError):
                await used.call(name, Willing(), **arguments)
        return str(used.failures or "")


def calls(used: Used, wanted: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the calls that the suite wants, or one of each tool."""
    if wanted is not None:
        yield from ((f"peer__{each['name']}", each["arguments"]) for each in wanted)
        return
    for name, tool in used.tools.items():
        properties: Any = tool.spec.parameters.get("properties", {})
        if FOCAL in used.tools and "schema" in properties:
            yield name, {"schema": thaw(used.tools[FOCAL].spec.parameters)}
        else:
            yield name, {key: _sample(value) for key, value in properties.items()}


def _sample(schema: Any) -> Any:
    return schema.get("default", SAMPLES.get(schema.get("type", "string"), "text"))
