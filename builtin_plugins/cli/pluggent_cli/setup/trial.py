"""Tries settings before they are written: asks a provider for its models, and a model for one answer."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any, NamedTuple

from pluggent_hookspecs import ModelInfo, ProviderError, ProviderErrorKind
from pluggent_hookspecs.errors import PluggentError
from pluggent_host.inspection import NoModelList
from pluggent_host.turns.next_step import Why
from pluggent_plugin_loader.settings import Section

from pluggent_cli.host_access import Setup, open_host

PROMPT = "Say hello in one short sentence."
_FORBIDDEN = 403
_PAYMENT_REQUIRED = 402


def with_section(setup: Setup, plugin: str, section: Mapping[str, Any]) -> Setup:
    """Return *setup* with *section* as the settings of *plugin*."""
    before = setup.settings.plugins.get(plugin)
    folders: Mapping[str, str] = before.folders if isinstance(before, Section) else {}
    plugins = {**setup.settings.plugins, plugin: Section(section, folders)}
    return setup._replace(settings=setup.settings._replace(plugins=plugins))


async def models_of(setup: Setup, provider: str) -> tuple[ModelInfo, ...]:
    """Return the models of *provider*, the newest first; none where it lists none. Raises PluggentError."""
    async with open_host(setup, remembering=False) as host:
        found = (await host.models(provider))[provider]
    if isinstance(found, NoModelList) or _may_not_list(found):
        return ()
    if isinstance(found, PluggentError):
        raise found
    return tuple(sorted(found, key=lambda model: -(model.created or 0)))


def _may_not_list(found: object) -> bool:
    """Say whether the key is right and may not list models: some are for answers alone."""
    return isinstance(found, ProviderError) and found.status == _FORBIDDEN


class Answer(NamedTuple):
    """What one call brought."""

    text: str
    tokens: int
    seconds: float


async def answer_of(setup: Setup, model: str) -> Answer:
    """Return what *model* says to PROMPT, under the policies of *setup*. Raises PluggentError."""
    started = perf_counter()
    async with open_host(setup, remembering=False) as host, await host.session(model=model, tools=()) as session:
        result = await session.say(PROMPT, origin="cli")
    if result.why is not Why.COMPLETED:
        raise PluggentError(f"the call ended as {result.why}: {result.detail}")
    return Answer(result.text, (result.usage.input or 0) + (result.usage.output or 0), perf_counter() - started)


def sentence(error: PluggentError, provider: str, *, own: bool = False) -> str:
    """Return what a person reads of *error*: what to do, and in the next line what the server said.

    *own*: it is a server of one's own.
    """
    text = error.message if isinstance(error, ProviderError) else str(error)
    if is_about_credit(error):
        return (
            f"The key is right, but its account has no credit. Add some where you pay for {provider}, or use another"
            f" key.\n{text}"
        )
    if is_about_key(error):
        return f"{provider} does not accept this key. Check that you copied all of it, or make a new one.\n{text}"
    if is_unreachable(error):
        check = "Start it, or check its address" if own else "Check the network and, if you need a proxy, HTTPS_PROXY"
        return f"{provider} cannot be reached. {check}.\n{text}"
    return f"It did not work.\n{text}"


def is_about_key(error: PluggentError) -> bool:
    """Say whether the key is wrong, or missing."""
    return isinstance(error, ProviderError) and error.kind is ProviderErrorKind.AUTHENTICATION


def is_about_credit(error: PluggentError) -> bool:
    """Say whether the account of a key that is right is empty. Providers say it in words, there is no kind for it."""
    return isinstance(error, ProviderError) and (error.status == _PAYMENT_REQUIRED or "no credit" in error.message)


def is_unreachable(error: PluggentError) -> bool:
    """Say whether no server has answered."""
    kinds = (ProviderErrorKind.UNAVAILABLE, ProviderErrorKind.TIMEOUT)
    return isinstance(error, ProviderError) and error.status is None and error.kind in kinds
