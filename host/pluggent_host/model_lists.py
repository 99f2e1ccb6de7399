"""Asks providers which models they have: side by side, each under a deadline of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from time import perf_counter
from types import MappingProxyType
from typing import TypeAlias, cast

from pluggent_hookspecs.errors import PluggentError, ProviderError, ProviderErrorKind
from pluggent_hookspecs.models import ListsModels, ModelInfo, Provider

from pluggent_host.common.running import being_cancelled, said
from pluggent_host.hooks.caller import Caller, Late

Models: TypeAlias = tuple[ModelInfo, ...] | PluggentError
"""What one provider has, or why that is not known."""


class NoModelList(PluggentError):  # noqa: N818 (a fact, not a failure)
    """A provider cannot say which models it has; they can be used all the same."""

    def __init__(self, provider: str) -> None:
        self.provider = provider
        super().__init__(f"the provider '{provider}' does not say which models it has; see its documentation")


async def models_of(
    providers: Mapping[str, Provider | PluggentError], caller: Caller, limit_s: float
) -> Mapping[str, Models]:
    """Return what each provider has, under its name; one that fails hides no other. Each has *limit_s* seconds."""
    async with asyncio.TaskGroup() as group:
        asked = {name: group.create_task(_asked(name, one, caller, limit_s)) for name, one in providers.items()}
    return MappingProxyType({name: task.result() for name, task in asked.items()})


async def _asked(name: str, provider: Provider | PluggentError, caller: Caller, limit_s: float) -> Models:
    if isinstance(provider, PluggentError):
        return provider
    if not isinstance(provider, ListsModels):
        return NoModelList(name)
    deadline = perf_counter() + limit_s
    try:
        found = await caller.bounded(provider.list_models(), lambda: deadline - perf_counter())
    except KeyboardInterrupt:
        raise
    except PluggentError as error:
        return error
    except Late:
        return ProviderError(ProviderErrorKind.TIMEOUT, f"gave no list within {limit_s:g} s", provider=name)
    except asyncio.CancelledError as error:
        if being_cancelled():
            raise
        return _broken(name, f"failed in list_models: {said(error)}")
    except BaseException as error:  # noqa: BLE001 (a plugin may raise anything; it becomes a value)
        return _broken(name, f"failed in list_models: {said(error)}")
    return _checked(name, found)


def _checked(name: str, found: object) -> Models:
    items = tuple(cast("Sequence[object]", found)) if isinstance(found, Sequence) else (found,)
    models = tuple(item for item in items if isinstance(item, ModelInfo))
    wrong = [type(item).__name__ for item in items if not isinstance(item, ModelInfo)]
    if wrong:
        return _broken(name, f"list_models returned {wrong[0]} where ModelInfo is wanted")
    return models


def _broken(name: str, problem: str) -> ProviderError:
    return ProviderError(ProviderErrorKind.PROTOCOL, problem, provider=name)
