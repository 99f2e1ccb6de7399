"""Providers are asked for their models side by side, and none that fails hides another."""

import asyncio
import contextlib

import pytest
from fake_distributions import Site
from pluggent_hookspecs import ConfigError, ModelInfo, ProviderError, ProviderErrorKind, hookimpl
from pluggent_host import Host
from pluggent_host.model_lists import NoModelList
from pluggent_testing.fakes import ScriptedModel
from talking import WAIT_S, hosting

BROKEN = "raise RuntimeError('no such luck')"


class Vendor:
    """A provider that lists what *answer* gives."""

    target = "memory:"

    def __init__(self, name, answer):
        self.name = name
        self._answer = answer

    @hookimpl
    def provide_providers(self, event):
        return [self]

    async def complete(self, request):
        raise AssertionError("nobody asks it anything here")

    def stream(self, request):
        raise AssertionError("nobody asks it anything here")

    async def list_models(self):
        answer = self._answer() if callable(self._answer) else self._answer
        return await answer if asyncio.iscoroutine(answer) else answer


async def test_every_provider_is_asked_and_those_that_cannot_say_are_named():
    small, large = ModelInfo("small"), ModelInfo("large", "Large", context_window=100)
    async with hosting(plugins=[Vendor("acme", [small, large])]) as host:
        found = await host.models()

    assert list(found) == ["acme", "scripted"]
    assert found["acme"] == (small, large)
    assert isinstance(found["scripted"], NoModelList)
    assert str(found["scripted"]).startswith("the provider 'scripted' does not say which models it has")


async def test_one_provider_is_asked_alone():
    asked = []
    vendors = [Vendor(name, lambda name=name: asked.append(name) or [ModelInfo(name)]) for name in ("a", "b")]
    async with hosting(plugins=vendors) as host:
        found = await host.models("b")

    assert (dict(found), asked) == ({"b": (ModelInfo("b"),)}, ["b"])


async def test_a_provider_that_there_is_not_is_said():
    async with hosting() as host:
        with pytest.raises(ConfigError, match="there is no provider 'scriptd'; did you mean 'scripted'"):
            await host.models("scriptd")


async def fails():
    raise ValueError("oops")


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (fails, "acme: failed in list_models: ValueError: oops"),
        (lambda: 1 / 0, "acme: failed in list_models: ZeroDivisionError: division by zero"),
        (["small"], "acme: list_models returned str where ModelInfo is wanted"),
        (None, "acme: list_models returned NoneType where ModelInfo is wanted"),
    ],
)
async def test_whatever_goes_wrong_is_a_value_and_hides_no_other(answer, says):
    async with hosting(plugins=[Vendor("acme", answer), Vendor("good", [ModelInfo("m")])]) as host:
        found = await host.models()

    assert found["good"] == (ModelInfo("m"),)
    assert isinstance(found["acme"], ProviderError)
    assert (found["acme"].kind, str(found["acme"])) == (ProviderErrorKind.PROTOCOL, says)


async def test_an_error_of_the_provider_comes_as_it_is():
    error = ProviderError(ProviderErrorKind.AUTHENTICATION, "no key", provider="acme")

    def refuse():
        raise error

    async with hosting(plugins=[Vendor("acme", refuse)]) as host:
        assert (await host.models("acme"))["acme"] is error


async def test_who_is_late_is_given_up_and_the_others_are_asked_meanwhile():
    met = asyncio.Barrier(2)

    async def meet():
        await met.wait()
        return [ModelInfo("m")]

    async def never():
        await asyncio.Event().wait()

    async with hosting(plugins=[Vendor("a", meet), Vendor("b", meet), Vendor("late", never)]) as host:
        async with asyncio.timeout(WAIT_S):
            found = await host.models(timeout_s=0.2)

    assert found["a"] == found["b"] == (ModelInfo("m"),)
    assert isinstance(found["late"], ProviderError)
    assert (found["late"].kind, found["late"].provider) == (ProviderErrorKind.TIMEOUT, "late")
    assert "gave no list within 0.2 s" in str(found["late"])


async def test_a_cancellation_reaches_every_provider():
    asked, left = asyncio.Event(), asyncio.Event()

    async def wait():
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    async with hosting(plugins=[Vendor("acme", wait)]) as host, asyncio.timeout(WAIT_S):
        task = asyncio.create_task(host.models())
        await asked.wait()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await left.wait()

    assert task.cancelled()


async def test_a_plugin_that_cannot_be_loaded_stands_among_the_others(tmp_path):
    site = Site(tmp_path)
    site.add("acme-broken", "providers/broken", BROKEN)
    async with Host.open(plugins=[ScriptedModel()], installed=site.found()) as host:
        found = await host.models()

    assert set(found) == {"broken", "scripted"}
    assert "acme-broken" in str(found["broken"])
