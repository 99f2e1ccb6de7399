"""An approval is for the version of the plugin that was installed when it was given: rule 41."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from fake_distributions import install
from pluggent_hookspecs import Approval
from pluggent_host import Host, HostSettings
from pluggent_plugin_loader.discovery import discover
from pluggent_testing.fakes import ScriptedModel, call

SENDS = """
from pluggent_hookspecs import hookimpl, tool

@tool(effects=("messaging",), description="Send it.")
def send(to: str) -> str:
    with open({file!r}, "a") as file:
        file.write(to + "\\n")
    return "sent"

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [send]
"""


class Post:
    """An installed plugin that sends, in one version or another, and hosts that share a folder."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._patch = patch
        self._number = itertools.count()

    def host(self, version: str, *replies: Any, approver: Any = None) -> Any:
        """Return a host that has the plugin in that *version*, with the same code and definition."""
        number = next(self._number)
        site, module = self.folder / f"site{number}", f"acme_post_{self.folder.name}_{number}"
        source = SENDS.format(file=str(self.folder / "sent"))
        install(site, "acme-post", {"tools/post": f"{module}:Plugin"}, modules={module: source}, version=version)
        self._patch.syspath_prepend(str(site))
        return Host.open(
            model="scripted/m", plugins=[ScriptedModel(*replies)], installed=discover([str(site)]), tools=["send"],
            state_dir=self.folder / "state", approver=approver, config=HostSettings(on_ask="pause"),
        )  # fmt: skip

    def sent(self) -> list[str]:
        file = self.folder / "sent"
        return file.read_text().split() if file.exists() else []


@pytest.fixture
def post(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Post:
    return Post(tmp_path, monkeypatch)


@pytest.mark.parametrize(("version", "sent"), [("1.0", ["ann"]), ("1.1", [])])
async def test_a_call_that_was_approved_under_an_older_version_does_not_run(post: Post, version: str, sent: list[str]):
    async with post.host("1.0", call("send", "c", to="ann")) as host, await host.session("s") as session:
        (pending,) = (await session.say("write to ann")).pending

    async with post.host(version, "done") as host, await host.session("s") as session:
        await session.resume({pending.call_id: True})
        assert sent or "has changed since a person was asked" in str(session.history)
    assert post.sent() == sent


@pytest.mark.parametrize(("version", "asked"), [("1.0", 0), ("1.1", 1)])
async def test_an_approval_for_always_ends_with_the_version(post: Post, version: str, asked: int):
    questions: list[object] = []

    def approve(event: object) -> Approval:
        questions.append(event)
        return Approval(agreed=True, reach="always")

    async with post.host("1.0", call("send", to="ann"), "done", approver=approve) as host:
        await (await host.session()).say("write to ann")
    questions.clear()
    async with post.host(version, call("send", to="ann"), "done", approver=approve) as host:
        await (await host.session()).say("write to ann")

    assert len(questions) == asked
    assert post.sent() == ["ann", "ann"]
