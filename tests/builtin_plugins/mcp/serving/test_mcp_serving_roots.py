"""What a server behind ``pluggent mcp serve`` hears of the folders of the client before it: never more than its own."""

import json
import sys

import pytest
from mcp_serving_sites import asking_site, client
from mcp_types import ErrorData, ListRootsResult, Root, RootsListChangedNotification
from mcp_using import PEER

ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
WAYS = pytest.mark.parametrize(
    ("wire", "mode"), [("stdio", "auto"), ("stdio", "legacy"), ("http", "auto"), ("http", "legacy")]
)


def site(folder):
    behind = f"[plugins.pluggent-mcp.mcpServers.one]\ncommand = {sys.executable!r}\nargs = {[str(PEER)]!r}\n"
    cli = asking_site(folder, f"{behind}effects = {{ '*' = [] }}\n")
    for name in ("a", "b c"):
        (cli.work / name).mkdir()
    (cli.work / "out").symlink_to(folder)
    return cli


class Folders:
    """The folders of a client; counts how often they were asked for."""

    def __init__(self, *uris):
        self.uris = uris
        self.asked = 0

    async def __call__(self, context) -> ListRootsResult | ErrorData:
        self.asked += 1
        return ListRootsResult(roots=[Root(uri=uri) for uri in self.uris])


def text(result):
    return result.content[0].text


async def heard(connected):
    """Return the paths of the roots that the server behind was told."""
    result = await connected.call_tool("one__roots", {})
    return [each["uri"].removeprefix("file://") for each in json.loads(text(result))["roots"]]


@WAYS
async def test_the_server_behind_is_told_the_folders_of_the_client_that_lie_in_the_workspace(wire, mode, tmp_path):
    cli = site(tmp_path)
    work = cli.work.resolve()
    folders = Folders(f"file://{work}/a", f"file://localhost{work}/b%20c", "file:///etc", f"file://{work}/a/../a")
    async with client(wire, cli, mode, tools="one__roots", list_roots_callback=folders) as connected:
        found = await heard(connected)

    assert found == [f"{work}/a", f"{work}/b%20c"]


@ERAS
@pytest.mark.parametrize("claimed", ["/", "/etc/..", "{work}", "{work}/.."])
async def test_a_client_that_claims_more_than_the_workspace_gets_the_workspace(claimed, mode, tmp_path):
    cli = site(tmp_path)
    work = cli.work.resolve()
    folders = Folders(f"file://{claimed.format(work=work)}")
    async with client("stdio", cli, mode, tools="one__roots", list_roots_callback=folders) as connected:
        assert await heard(connected) == [str(work)]


@ERAS
async def test_folders_outside_by_a_link_by_dots_or_on_another_machine_are_none(mode, tmp_path):
    cli = site(tmp_path)
    work = cli.work.resolve()
    outside = Folders(
        f"file://{work}/out/secret", f"file://{work}/../other", f"file://elsewhere{work}/a", f"file://{work}/%2e%2e/x",
        f"file://{work}/a%00/b", f"file://{work}{'/x' * 5_000}/../../..",
    )  # fmt: skip
    async with client("stdio", cli, mode, tools="one__roots", list_roots_callback=outside) as connected:
        found = await heard(connected)

    assert [each for each in found if not each.startswith(f"{work}/x")] == []


@ERAS
async def test_without_folders_of_a_client_the_workspace_is_told(mode, tmp_path):
    cli = site(tmp_path)
    async with client("stdio", cli, mode, tools="one__roots") as connected:
        assert await heard(connected) == [str(cli.work.resolve())]


async def test_a_client_that_refuses_to_list_its_folders_or_lists_too_many_is_one_without(tmp_path):
    cli = site(tmp_path)

    class Refusing(Folders):
        async def __call__(self, context):
            if self.asked:
                return await super().__call__(context)
            self.asked += 1
            return ErrorData(code=-1, message="no")

    folders = Refusing(*(f"file://{cli.work}/{number}" for number in range(65)))
    async with client("stdio", cli, "legacy", tools="one__roots", list_roots_callback=folders) as connected:
        first, second = await heard(connected), await heard(connected)

    assert first == second == [str(cli.work.resolve())]
    assert folders.asked == 2


@ERAS
async def test_a_client_is_not_asked_unless_a_server_behind_asks(mode, tmp_path):
    folders = Folders("file:///")
    async with client("stdio", site(tmp_path), mode, tools="one__echo", list_roots_callback=folders) as connected:
        await connected.call_tool("one__echo", {"text": "x"})

    assert folders.asked == 0


async def test_the_server_behind_is_notified_when_the_folders_of_the_client_are_others(tmp_path):
    cli = site(tmp_path)
    async with client("stdio", cli, "legacy", tools="one__*", list_roots_callback=Folders("file:///")) as connected:
        await heard(connected)
        before = json.loads(text(await connected.call_tool("one__counts", {})))
        await connected.session.send_notification(RootsListChangedNotification())
        after = json.loads(text(await connected.call_tool("one__counts", {})))

    assert after[2] == before[2] + 1
