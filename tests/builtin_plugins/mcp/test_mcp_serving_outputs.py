"""What a client of ``pluggent mcp serve`` gets of results while policies on outputs are installed (rules 25, 40).

Whoever sits at the client sees it, and no text of a model of ours follows: these are the last policies there are.
"""

import pytest
from fake_distributions import install
from mcp_serving_sites import asking_site, client
from mcp_types import TextContent

WORD = "one"
DENIES = f"""
from pluggent_hookspecs import Deny, hookimpl

class Policy:
    @hookimpl
    def decide_output(self, event):
        return Deny("not for clients") if "{WORD}" in event.message.text else None
"""
REWRITES = """
import attrs
from pluggent_hookspecs import hookimpl

class Policy:
    @hookimpl
    def transform_output(self, event):
        change = {"one": "three", '{"n":1}': '{"n":3}'}
        content = tuple(attrs.evolve(part, text=change.get(part.text, part.text)) for part in event.message.content)
        return attrs.evolve(event.message, content=content)
"""
PASSES = DENIES.replace(f'"{WORD}"', '"another word"')


@pytest.mark.parametrize(
    ("policy", "text", "data"),
    [
        (DENIES, "The result of this call was withheld: not for clients", None),
        (REWRITES, "three", {"n": 3}),
        (PASSES, "one", {"n": 1}),
    ],
    ids=["denies", "rewrites", "passes"],
)
async def test_a_client_gets_what_policies_on_outputs_let_pass(tmp_path, policy, text, data):
    cli = asking_site(tmp_path)
    install(cli.site, "acme-policy", {"hooks/policy": "acme_policy:Policy"}, modules={"acme_policy": policy})
    cli("trust", "--plugin", "acme-policy")

    async with client("stdio", cli, "auto") as connected:
        result = await connected.call_tool("counted", {})

    (block,) = result.content
    assert isinstance(block, TextContent)
    assert (block.text, result.structured_content, result.is_error) == (text, data, data is None)
