"""A client for the official conformance suite: lists the tools at a URL and calls each. python mcp_conforming.py URL."""

import asyncio
import sys
from typing import Any

from mcp_using import Context, using
from pluggent_hookspecs import Accepted, Message, ModelResponse, ToolError
from pluggent_mcp.settings import Server

SAMPLES: dict[str, Any] = {"string": "text", "integer": 2, "number": 2.5, "boolean": True, "array": [], "object": {}}


class Willing(Context):
    """Agrees to everything; a form is returned with its defaults alone, as the host fills them in."""

    async def call_model(self, prompt: Any, **options: Any) -> ModelResponse:
        return ModelResponse(Message.assistant("forty-two"), model="m-1")

    async def elicit(self, message: str, schema: Any, *, source: str = "") -> Accepted:
        properties = schema.get("properties", {})
        return Accepted({name: value["default"] for name, value in properties.items() if "default" in value})


async def main(url: str) -> None:
    """Use the server at *url*."""
    async with using(peer=Server(url=url, resources=True, prompts=True)) as used:
        if used.failures:
            sys.exit(str(used.failures))
        for name, tool in used.tools.items():
            properties: Any = tool.spec.parameters.get("properties", {})
            arguments = {key: _sample(value) for key, value in properties.items()}
            try:
                await used.call(name, Willing(), **arguments)
            except ToolError as error:
                print(f"{name}: {error}", file=sys.stderr)


def _sample(schema: Any) -> Any:
    return schema.get("default", SAMPLES.get(schema.get("type", "string"), "text"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
