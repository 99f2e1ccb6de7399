"""Resources and prompts for the plugin ``acme``: what the official suite asks for, and what a policy takes care of."""

NATIVE = '''
import base64, os
from typing import Any
from pluggent_hookspecs import File, Image, Text, ToolError, ToolOutput, tool

DOT = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==")
LISTS, READS, PROMPTS, GETS = (f"mcp:{each}" for each in
    ("resources/list", "resources/read", "prompts/list", "prompts/get"))
ENTRIES = [
    {"uri": "test://static-text", "name": "text", "description": "Text.", "type": "text/plain"},
    {"uri": "test://static-binary", "name": "binary", "description": "A dot.", "type": "image/png"},
    {"template": "test://template/{id}/data", "name": "data", "description": "Data.", "type": "application/json"},
]

def read(uri: str, text: str, kind: str = "text/plain") -> ToolOutput:
    return ToolOutput(text, data={"contents": [{"uri": uri, "mimeType": kind, "text": text}]})

@tool(effects=(), tags=(LISTS,))
def list_resources() -> dict[str, Any]:
    """List."""
    return {"entries": ENTRIES}

@tool(effects=(), tags=(READS,))
def read_resource(uri: str) -> ToolOutput:
    """Read."""
    if uri == "test://static-text":
        return read(uri, "This is the content of the static text resource.")
    if uri == "test://static-binary":
        return ToolOutput((Image(data=DOT),), data={"contents": [{"uri": uri, "mimeType": "image/png"}]})
    if uri == "test://template/broken":
        raise ToolError("the disk is gone")
    if uri.startswith("test://template/"):
        return read(uri, '{"id":"%s"}' % uri.split("/")[3], "application/json")
    return ToolOutput("there is no such thing", is_error=True, data={"code": -32602})

@tool(effects=(), tags=(LISTS,))
def sealed__list_resources() -> dict[str, Any]:
    """List what nobody may read, and what is listed already."""
    return {"entries": [{"uri": "sealed://door", "name": "door"}, {"uri": "test://static-text", "name": "other"}]}

@tool(effects=(), tags=(READS,))
def sealed__read_resource(uri: str) -> ToolOutput:
    """Read what a policy denies."""
    return read(uri, "open")

@tool(effects=(), tags=(LISTS,))
def many__list_resources() -> dict[str, Any]:
    """List much."""
    return {"entries": [{"uri": f"many://{at}", "name": str(at)} for at in range(250)]}

@tool(effects=(), tags=(READS,))
def many__read_resource(uri: str) -> ToolOutput:
    """Read what is longer than a model may see."""
    return read(uri, "x" * 100_000)

@tool(effects=(), tags=(READS,))
def lonely_read_resource(uri: str) -> str:
    """Read what nobody lists."""
    return uri

def said(role: str, **content: Any) -> dict[str, Any]:
    return {"role": role, "content": content}

def given(name: str, *arguments: str) -> dict[str, Any]:
    return {"name": name, "description": f"Says {name}.",
            "arguments": [{"name": each, "required": True, "description": "Any."} for each in arguments]}

@tool(effects=(), tags=(PROMPTS,))
def list_prompts() -> dict[str, Any]:
    """List."""
    return {"entries": [
        given("test_simple_prompt"), given("test_prompt_with_arguments", "arg1", "arg2"),
        given("test_prompt_with_embedded_resource", "resourceUri"), given("test_prompt_with_image"), given("leak"),
    ]}

@tool(effects=(), tags=(GETS,))
def get_prompt(name: str, arguments: dict[str, str]) -> ToolOutput:
    """Get."""
    text = {"test_simple_prompt": "This is a simple prompt for testing.",
            "test_prompt_with_arguments": "with {arg1} and {arg2}",
            "leak": "the key is " + os.environ["ACME_KEY"]}.get(name, "Please look.").format(**arguments)
    messages = [said("user", type="text", text=text)]
    if name == "test_prompt_with_image":
        messages.insert(0, said("assistant", type="image", mimeType="image/png"))
        return ToolOutput((Image(data=DOT), Text(text)), data={"messages": messages})
    if name == "test_prompt_with_embedded_resource":
        uri = arguments["resourceUri"]
        inside = {"uri": uri, "mimeType": "text/plain", "text": "Embedded resource content for testing."}
        messages.insert(0, said("user", type="resource", resource=inside))
        return ToolOutput(f"[{uri}] {inside['text']} {text}", data={"messages": messages})
    return ToolOutput(text, data={"messages": messages})

TOOLS = [list_resources, read_resource, sealed__list_resources, sealed__read_resource, many__list_resources,
         many__read_resource, lonely_read_resource, list_prompts, get_prompt]
'''
