"""Where tools work: in the working directory, unless that is a home folder or above; and what is put back there."""

import pytest

TOOLS = """
import pathlib
from typing import Annotated
from pluggent_hookspecs import Param, ToolContext, ToolOutput, UndoCall, hookimpl, tool

Place = Annotated[str, Param(format="path")]

@tool(effects=())
def where(context: ToolContext) -> str:
    '''Say where tools work.'''
    return str(context.workspace)

@tool(effects=["filesystem_read"])
def peek(path: Place) -> str:
    '''Read a file.'''
    return pathlib.Path(path).read_text()

@tool(effects=["filesystem_write"])
def note(path: Place, text: str, context: ToolContext) -> ToolOutput:
    '''Write a note.'''
    place = (context.workspace or pathlib.Path()) / path
    before = place.read_text() if place.exists() else ""
    place.write_text(text)
    return ToolOutput(f"wrote {text}", undo=(UndoCall("note", {"path": path, "text": before}),))

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [where, peek, note]
"""


@pytest.fixture
def cli(cli):
    cli.plugin("acme-notes", TOOLS)
    return cli


def test_tools_work_where_the_command_is_started(cli):
    assert cli("tools", "call", "where").out.strip() == str(cli.work)
    assert cli("run", "where").out.strip().endswith(str(cli.work))


@pytest.mark.parametrize("home", ["here", "below"])
def test_a_home_folder_and_one_above_it_are_no_workspace(cli, home):
    folder = cli.work if home == "here" else cli.work / "ann" / "home"
    folder.mkdir(parents=True, exist_ok=True)

    assert cli("tools", "call", "where", HOME=str(folder)).out.strip() == "None"
    assert cli("run", "where", HOME=str(folder)).out.strip().endswith("None")
    assert cli("tools", "call", "note", "path=a.txt", "text=x", HOME=str(folder)).code == 3
    assert not (cli.work / "a.txt").exists()


def test_a_home_folder_that_is_named_is_a_workspace(cli):
    options = {"HOME": str(cli.work)}

    assert cli("tools", "call", "where", "--workspace", ".", **options).out.strip() == str(cli.work)


@pytest.mark.parametrize("option", [(), ("--no-save",)])
@pytest.mark.parametrize("name", ["keys/openai", "chat-history", "chat-draft", "audit/calls.jsonl"])
def test_keys_and_what_was_typed_are_for_no_tool_whether_or_not_the_session_is_saved(cli, option, name):
    file = cli.state / name
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    cli.state.chmod(0o700)
    file.write_text("sk-secret")
    link = cli.work / "notes.md"
    link.symlink_to(file)

    for path in (file, link):
        done = cli("run", *option, f"peek path={path}", HOME=str(cli.work))

        assert "sk-secret" not in done.out + done.err
        assert "DENIED by host" in done.err


def test_what_tools_changed_is_put_back_after_undo(cli):
    (cli.work / "a.txt").write_text("old")
    lines = "note path=a.txt text=new\n/undo\n/restore\n/restore\n"

    done = cli("chat", stdin=lines)

    assert (cli.work / "a.txt").read_text() == "old"
    assert "1 change of its tools can be put back: /restore\nnote: wrote old\n" in done.out
    assert done.out.endswith("nothing that was taken back can be put back\n")


def test_a_call_that_failed_has_nothing_to_put_back(cli):
    (cli.work / "a.txt").mkdir()

    done = cli("chat", stdin="note path=a.txt text=new\n/undo\n/restore\n")

    assert "1 change" not in done.out
    assert done.out.endswith("nothing that was taken back can be put back\n")
