"""Settings of the permissions plugin as the host makes them, and operations to hold against them."""

import json
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from pluggent_hookspecs import Scope, ToolCallEvent, ToolSpec
from pluggent_host.settings import Grants, HostSettings
from pluggent_permissions.argument_settings import ArgumentTest
from pluggent_permissions.arguments import argument_test
from pluggent_permissions.policy import Answer, Policy
from pluggent_permissions.settings import PermissionSettings
from pluggent_permissions.text_patterns import Reading
from pluggent_plugin_loader.discovery import Discovery, discover
from pluggent_plugin_loader.options import settings_for

ID = "pluggent-permissions"
TOOL = "acme-tools:tool/do"


def settings(written: str | Mapping[str, Any]) -> PermissionSettings:
    """Return what the host makes of a section, given as TOML or as a table."""
    table = tomllib.loads(written) if isinstance(written, str) else written
    (made,) = settings_for(ID, PermissionSettings, table)
    assert isinstance(made, PermissionSettings)
    return made


def policy(written: str | Mapping[str, Any], **short: Iterable[str]) -> Policy:
    """Return the policy of a section; *short* says which ids short names mean."""
    return Policy(settings(written)).with_names({name: frozenset(ids) for name, ids in short.items()})


def rule(id: str, decision: str, **more: Any) -> dict[str, Any]:
    """Return a rule as it is written; about every tool, if nothing else is said."""
    return {"id": id, "decision": decision, **({"when": {"tool": "*"}} | more)}


def call(
    capability: str = TOOL,
    /,
    *,
    effects: Iterable[str] | None = (),
    scope: Scope = Scope(),  # noqa: B008 (frozen)
    **arguments: Any,
) -> ToolCallEvent:
    """Return a call of a tool with *arguments*."""
    spec = ToolSpec(capability.rpartition("/")[2], effects=effects)
    return ToolCallEvent(scope, "c1", spec, capability, json.dumps(arguments).encode(), effects=spec.effects)


def answer(written: str | Mapping[str, Any], event: ToolCallEvent | None = None) -> Answer:
    """Return what a section says to one call."""
    return policy(written).of_tool_call(event or call())


def ruling(written: str | Mapping[str, Any], event: ToolCallEvent | None = None) -> str | None:
    """Return the decision of a section about one call, as a word."""
    said = answer(written, event).ruling
    return None if said is None else str(said)


def fits(wanted: Mapping[str, Any], value: Any, reading: Reading, *, workspace: str = "") -> bool:
    """Return whether *value*, the argument ``a`` of a call, is what is *wanted*."""
    made = settings({"rules": [rule("r", "deny", when={"arguments": {"a": wanted}})]}).rules[0].when.arguments["a"]
    assert isinstance(made, ArgumentTest)
    return argument_test("a", made, reading)(call(scope=Scope(workspace=workspace), a=value))


def both(wanted: Mapping[str, Any], value: Any, *, workspace: str = "") -> tuple[bool, bool]:
    """Return whether *value* fits where it is forbidden, and where it is permitted."""
    return (
        fits(wanted, value, Reading.WIDE, workspace=workspace),
        fits(wanted, value, Reading.EXACT, workspace=workspace),
    )


def ours() -> Discovery:
    """Return what is installed here, with the permissions plugin alone."""
    here = discover()
    return here._replace(distributions=tuple(item for item in here.distributions if item.name == ID))


def under(*rules: Any, granted: bool = False, **section: Any) -> dict[str, Any]:
    """Return the options of a stage on which these rules hold."""
    grants = Grants(may_allow=(ID,)) if granted else Grants()
    return {
        "installed": ours(),
        "config": HostSettings(plugins={ID: {"rules": list(rules), **section}}, grants=grants, strict=True),
    }
