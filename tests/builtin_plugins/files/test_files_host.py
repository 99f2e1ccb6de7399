"""The tools in a real host: what a model is offered, what asks, what a person sees and what undo puts back."""

from pathlib import Path
from typing import Any

import pytest
from file_hands import tree
from pluggent_files.plugin import Files
from pluggent_files.settings import FilesSettings
from pluggent_hookspecs import ApprovalEvent
from pluggent_host import Exchange, Why
from pluggent_testing.fakes import ScriptedModel, call
from talking import results, talking

NO_TRASH = FilesSettings(trash="never")
TOOLS = ("list_files", "read_file", "find_files", "search_files", "edit_file", "write_file", "move_file", "delete_file")
EDITS = [{"old_text": "a = 1", "new_text": "a = 2"}]


class Person:
    """Agrees to everything, and remembers what was shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def __call__(self, event: ApprovalEvent) -> bool:
        self.shown.append(event.rendered)
        return True


def hosting(workspace: Path, *replies: Any, **options: Any) -> Any:
    return talking(*replies, plugins=[Files(NO_TRASH)], tools=["*"], workspace=workspace, **options)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.py").write_text("a = 1\n")
    (tmp_path / "outside.py").write_text("a = 1\n")
    return folder


async def test_a_model_is_offered_short_descriptions_with_paths_marked(workspace):
    model = ScriptedModel()
    async with talking(model=model, plugins=[Files()], tools=["*"], workspace=workspace) as session:
        await session.say("hello")

    offered = {tool.name: tool for tool in model.requests[0].tools}
    assert set(TOOLS) <= set(offered)
    for tool in offered.values():
        properties: Any = tool.parameters["properties"]
        assert len(tool.description) < 130
        assert properties["path"]["format"] == "path"
        assert all("$ref" in each or "description" in each or each.get("type") == "boolean" or "enum" in each
                   for each in properties.values())  # fmt: skip
    assert offered["delete_file"].effects == {"filesystem_write", "destructive"}
    assert offered["edit_file"].effects == {"filesystem_write"}
    assert offered["search_files"].effects == {"filesystem_read"}


async def test_reading_and_editing_inside_the_workspace_run_unasked(workspace):
    edit = call("edit_file", path="a.py", edits=EDITS)
    async with hosting(workspace, call("read_file", path="a.py"), edit) as session:
        result = await session.say("go")

    assert result.why is Why.COMPLETED
    assert results(session.history) == ["1\ta = 1", "changed a.py: +1 -1 lines\n1\ta = 2"]
    assert (workspace / "a.py").read_text() == "a = 2\n"


@pytest.mark.parametrize("text", ["// comment\n", "/* comment */\n", "~/bin\n", "../x\n", "file:x\n"])
async def test_a_content_that_begins_as_a_path_is_written_unasked(workspace, text):
    edits = [{"old_text": text, "new_text": f"{text}{text}"}]
    calls = [call("write_file", "1", path="a.js", content=text), call("edit_file", "2", path="a.js", edits=edits)]
    async with hosting(workspace, *calls) as session:
        result = await session.say("go")

    assert result.why is Why.COMPLETED
    assert (workspace / "a.js").read_text() == text * 2


FURTHER = [
    ("edit_file", {"path": "../outside.py", "edits": EDITS}),
    ("write_file", {"path": "../new.py", "content": "x\n"}),
    ("write_file", {"path": "pluggent.toml", "content": "x\n"}),
    ("write_file", {"path": ".git/hooks/pre-commit", "content": "x\n"}),
    ("delete_file", {"path": "a.py"}),
    ("move_file", {"path": "a.py", "to": "../b.py"}),
]


@pytest.mark.parametrize(("name", "arguments"), FURTHER)
async def test_what_reaches_further_is_not_done_without_a_person(workspace, name, arguments):
    before = tree(workspace.parent)

    async with hosting(workspace, call(name, **arguments)) as session:
        result = await session.say("go")

    assert result.why is not Why.COMPLETED
    assert tree(workspace.parent) == before


@pytest.mark.parametrize(("name", "arguments"), FURTHER)
async def test_what_a_person_agreed_to_is_done_and_put_back(workspace, name, arguments):
    person = Person()
    before = tree(workspace.parent)

    async with hosting(workspace, call(name, **arguments), approver=person) as session:
        await session.say("go")
        after = tree(workspace.parent)
        exchange = await session.undo()
        assert isinstance(exchange, Exchange)
        made = await session.put_back(exchange)

    assert len(person.shown) == 1 + (name != "delete_file")  # and what puts it back, unless that is inside
    assert after != before
    assert [output.is_error for _, output in made] == [False]
    assert {name: content for name, content in tree(workspace.parent).items() if content} == {
        name: content for name, content in before.items() if content
    }


async def test_a_person_is_shown_the_diff(workspace):
    person = Person()

    async with hosting(workspace, call("edit_file", path="../outside.py", edits=EDITS), approver=person) as session:
        await session.say("go")

    outside = workspace.parent / "outside.py"
    assert person.shown[0].endswith(f"\n\n--- {outside}\n+++ {outside}\n@@ -1,1 +1,1 @@\n-a = 1\n+a = 2")


async def test_a_file_that_changes_while_a_person_thinks_is_left_alone(workspace):
    outside = workspace.parent / "outside.py"

    def person(event: ApprovalEvent) -> bool:
        outside.write_text("a = 1\nb = 1\n")
        return True

    async with hosting(workspace, call("edit_file", path="../outside.py", edits=EDITS), approver=person) as session:
        await session.say("go")

    assert "has changed since a person agreed to this call" in results(session.history)[0]
    assert outside.read_text() == "a = 1\nb = 1\n"


@pytest.mark.parametrize("path", ["../outside.py", "/etc/passwd"])
async def test_reading_outside_says_how_a_person_allows_it(workspace, path):
    async with hosting(workspace, call("read_file", path=path)) as session:
        await session.say("go")

    assert "read_folders under [plugins.pluggent-files]" in results(session.history)[0]


async def test_a_change_inside_is_put_back_unasked(workspace):
    (workspace / "b.py").write_bytes(b"caf\xe9 = 1\r\n")
    edit = call("edit_file", "2", path="b.py", edits=[{"old_text": "= 1", "new_text": "= 2\n"}])
    before = tree(workspace)

    async with hosting(workspace, call("edit_file", path="a.py", edits=EDITS), edit) as session:
        await session.say("go")
        assert tree(workspace) != before
        exchange = await session.undo()
        assert exchange is not None
        made = await session.put_back(exchange)

    assert [output.is_error for _, output in made] == [False, False]
    assert tree(workspace) == before


async def test_the_state_folder_in_the_workspace_is_neither_read_nor_walked(workspace):
    state = workspace / "state"
    calls = [
        call("search_files", "1", pattern="scripted", include_ignored=True),
        call("read_file", "2", path="state/sessions"),
        call("delete_file", "3", path="state", recursive=True),
    ]
    person = Person()
    async with hosting(workspace, *calls, state_dir=state, approver=person) as session:
        await session.say("go")

    found, read, deleted = results(session.history)
    assert "pluggent keeps for itself" in read
    assert "no match" in found
    assert "has what pluggent keeps for itself inside" in deleted
