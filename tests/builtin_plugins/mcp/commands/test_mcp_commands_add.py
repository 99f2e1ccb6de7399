"""``pluggent mcp add`` and ``remove``: servers in the user's settings, and not a byte of it besides."""

import contextlib
import io
import json
import stat
import sys
import tomllib

import pytest
from mcp_using import PEER, McpCommand, server
from pluggent_mcp.commands.settings_file import with_server, without_server

MINE = """\
# Mine.\r
model = "offline/echo"   # for trying\r
\r
[limits]\r
tool_rounds = 7\r
"""
COMMAND = ("--", sys.executable, str(PEER))


@pytest.fixture
def mcp(clean_home, tmp_path, monkeypatch, capsys):
    return McpCommand.alone(clean_home, tmp_path, monkeypatch, capsys)


def servers(mcp):
    """Return the servers that are in the file."""
    return tomllib.loads(mcp.file.read_text("utf-8"))["plugins"]["pluggent-mcp"]["mcpServers"]


def test_what_is_added_asks_until_the_operator_has_looked_and_is_pinned(mcp):
    said = mcp("add", "files", *COMMAND)

    assert (said.code, said.err) == (0, "")
    assert ["echo", "filesystem_read"] in [line.split()[:2] for line in said.out.splitlines()]
    added = servers(mcp)["files"]
    assert (added["command"], added["args"]) == (sys.executable, [str(PEER)])
    assert added["effects"] == {}
    assert '# echo = ["filesystem_read"]' in mcp.file.read_text("utf-8")
    assert len(added["pins"]["echo"]) == 16
    rows = {line.split()[0]: line.split()[1:3] for line in mcp("tools", "files").out.splitlines()}
    assert rows["files__echo"] == ["unknown", "ask"]


def test_what_it_says_of_its_tools_is_taken_if_the_operator_says_so(mcp):
    mcp("add", "files", "--accept", *COMMAND)

    assert servers(mcp)["files"]["effects"] == {"echo": ["filesystem_read"]}
    assert mcp("call", "files", "echo", "text=x").out == "x\n"


def test_a_tool_that_is_not_as_it_was_pinned_is_left_out(mcp):
    mcp("add", "files", *COMMAND)
    pin = servers(mcp)["files"]["pins"]["echo"]
    mcp.file.write_text(mcp.file.read_text("utf-8").replace(pin, "0" * 16), "utf-8")

    tools = mcp("tools", "files").out

    assert "files__echo" not in tools
    assert "files__fail" in tools


def test_adding_and_removing_leaves_the_rest_of_the_file_as_it_was(mcp):
    mcp.file.parent.mkdir(parents=True)
    mcp.file.write_bytes(MINE.encode())
    mcp.file.chmod(0o640)

    mcp("add", "one", "--no-start", "--", "first", 'an "odd" \\ argument\x7f')
    mcp("add", "two", "https://b.test/mcp", "--header", "Authorization=Bearer ${TOKEN}", "--no-start")
    both = mcp.file.read_bytes()
    removed = mcp("remove", "one"), mcp("remove", "two")

    assert both.startswith(MINE.encode())
    assert b"\n" not in both.replace(b"\r\n", b"")
    assert tomllib.loads(both.decode())["plugins"]["pluggent-mcp"]["mcpServers"] == {
        "one": {"command": "first", "args": ['an "odd" \\ argument\x7f']},
        "two": {"url": "https://b.test/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
    }
    assert [each.code for each in removed] == [0, 0]
    assert mcp.file.read_bytes() == MINE.encode()
    assert stat.S_IMODE(mcp.file.stat().st_mode) == 0o640


def test_a_new_file_is_for_its_owner_alone(mcp):
    mcp("add", "one", "--no-start", "--", "first")

    assert stat.S_IMODE(mcp.file.stat().st_mode) == 0o600
    assert [file.name for file in mcp.file.parent.iterdir()] == ["pluggent.toml"]


def test_a_file_behind_a_link_stays_there(mcp, tmp_path):
    mcp.file.parent.mkdir(parents=True)
    (tmp_path / "dotfiles.toml").write_text("# mine\n", "utf-8")
    mcp.file.symlink_to(tmp_path / "dotfiles.toml")

    mcp("add", "one", "--no-start", "--", "first")

    assert mcp.file.is_symlink()
    assert (tmp_path / "dotfiles.toml").read_text("utf-8").startswith("# mine\n\n[plugins.")


def test_what_exists_is_replaced_only_by_force(mcp):
    mcp("add", "one", "--no-start", "--", "first")

    refused = mcp("add", "one", "--no-start", "--", "second")
    forced = mcp("add", "one", "--no-start", "--force", "--", "second")

    assert refused.code == 2
    assert "there is a server 'one' already; to replace it: --force" in refused.err
    assert forced.code == 0
    assert servers(mcp) == {"one": {"command": "second"}}


def test_a_server_that_does_not_start_is_not_added(mcp):
    said = mcp("add", "bad", *COMMAND, "dies")

    assert said.code == 1
    assert "bad was not added: it ended with exit code 3" in said.out
    assert not mcp.file.exists()


def test_servers_of_another_hosts_file_are_taken_over(mcp, tmp_path):
    others = {
        "good": {
            "command": sys.executable,
            "args": [str(PEER)],
            "env": {"KEY": "${KEY:-none}"},
            "trusted": True,
            "effects": {"*": []},
        },
        "bad": {"command": sys.executable, "args": [str(PEER), "dies"]},
        "off": {"url": "https://c.test/sse", "type": "sse", "disabled": True},
    }
    (tmp_path / "others.json").write_text(json.dumps({"mcpServers": others, "theme": "dark"}), "utf-8")

    said = mcp("add", "--from", "others.json")
    again = mcp("add", "--from", "others.json", "off", "--force")

    assert (said.code, again.code) == (1, 0)
    added = servers(mcp)
    assert set(added) == {"good", "off"}
    assert (added["good"]["env"], "echo" in added["good"]["pins"]) == ({"KEY": "${KEY:-none}"}, True)
    assert added["off"] == others["off"]
    # What a file that came from elsewhere says of its tools is no more than what they say themselves.
    assert ("trusted" in added["good"], added["good"]["effects"]) == (False, {})


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("one",), "expected NAME URL, or NAME -- COMMAND"),
        (("one", "--"), "expected NAME URL, or NAME -- COMMAND"),
        (("one", "https://a.test/", "--", "x"), "expected NAME URL, or NAME -- COMMAND"),
        (("one", "ftp://a.test/"), "one: expected a URL that begins with http"),
        (("one", "https://a.test/", "--env", "A=1"), "--env goes with a command"),
        (("one", "--env", "hunter2", "--", "x"), "--env: expected KEY=VALUE"),
        (("", "--", "x"), "is not a name of a server"),
        (("a_", "--no-start", "--prefix", "x", "--", "x"), "unrecognized arguments: --prefix"),
        (("--from", "nowhere.json"), "nowhere.json: cannot be read"),
        (("--from", "others.json", "ann"), "there is no server ann in mcpServers; there are: bob"),
        (("--from", "others.json"), "bob.comand: unknown; did you mean 'command'?"),
        (("--from", "others.json", "--env", "A=1"), "with --from come names"),
    ],
)
def test_what_cannot_be_added_is_said_and_nothing_is_written(mcp, tmp_path, words, says):
    others = {"mcpServers": {"bob": {"comand": "x"}}}
    (tmp_path / "others.json").write_text(json.dumps(others), "utf-8")

    said = mcp("add", *words)

    assert (said.code, said.out) == (2, "")
    assert says in said.err
    assert "hunter2" not in said.err
    assert not mcp.file.exists()


def test_what_is_not_there_cannot_be_removed(mcp):
    mcp.settings(server("one"))

    said = mcp("remove", "two")

    assert said.code == 2
    assert "has no server 'two'; it has: one" in said.err


def test_a_file_that_is_no_toml_is_not_touched(mcp):
    mcp.settings("model = \n")

    assert mcp("add", "one", "--no-start", "--", "x").code == 2
    assert mcp.file.read_text("utf-8") == "model = \n"


INLINE = '[plugins.pluggent-mcp]\nmcpServers = { one = { command = "x" } }\n'
DOTTED = 'plugins.pluggent-mcp.mcpServers.one.command = "x"\n'


@pytest.mark.parametrize("text", [INLINE, DOTTED])
def test_servers_that_are_written_in_another_way_are_left_to_their_author(mcp, text):
    mcp.settings(text)

    removed = mcp("remove", "one")

    assert removed.code == 2
    assert "mcpServers.one: it is written in a form in which it cannot be separated from the rest" in removed.err
    assert mcp.file.read_text("utf-8") == text


BLOCK = '[plugins.pluggent-mcp.mcpServers.one]\ncommand = "x"\n'
AROUND = """\
# about limits
[limits]
tool_rounds = 1

{block}
# about grants
[grants] # the end
may_allow = []
text = '''
[plugins.pluggent-mcp.mcpServers.one]
'''
"""


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        (BLOCK, ""),
        (f'{BLOCK}\n[plugins.pluggent-mcp.mcpServers.one.env]\nA = "1"\n', ""),
        ('[ plugins . "pluggent-mcp".mcpServers."one" ] # mine\ncommand = "x"\n', ""),
        (f"a = 1\n\n{BLOCK}b = [\n  'c',\n]\n", "a = 1\n"),
        (f"{BLOCK}# of one\n\n# of two\n[plugins.pluggent-mcp.mcpServers.two]\nurl = 'http://x'\n",
         "\n# of two\n[plugins.pluggent-mcp.mcpServers.two]\nurl = 'http://x'\n"),
    ],
)  # fmt: skip
def test_a_server_is_told_from_what_stands_around_it(text, rest):
    assert without_server(text, "one") == rest


def test_a_header_inside_a_text_is_none(mcp):
    text = AROUND.format(block=BLOCK)

    with pytest.raises(ValueError, match="cannot be separated from the rest"):
        without_server(text, "one")
    with pytest.raises(ValueError, match="to which no table can be added"):
        with_server('plugins.pluggent-mcp.mcpServers = { a = { command = "x" } }\n', "one", BLOCK)


def test_a_server_to_which_a_person_logs_in_is_added_unstarted_and_says_how(mcp):
    added = mcp("add", "issues", "https://mcp.example.com/mcp", "--oauth")
    written = servers(mcp)["issues"]
    removed = mcp("remove", "issues")

    assert (added.code, added.out.splitlines()[-1]) == (0, "to log in to it: pluggent mcp login issues")
    assert written == {"url": "https://mcp.example.com/mcp", "oauth": True}
    assert removed.out.splitlines()[-1] == "who is logged in to it still is: pluggent mcp logout issues"


def test_a_command_has_no_login(mcp):
    refused = mcp("add", "files", "--oauth", *COMMAND)

    assert refused.code == 2
    assert "--header and --oauth with a URL" in refused.err


def test_what_is_said_to_be_added_is_in_the_file_although_the_reader_has_gone(mcp, monkeypatch):
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Gone())
    with contextlib.suppress(BrokenPipeError):
        mcp("add", "files", *COMMAND)

    assert servers(mcp)["files"]["command"] == sys.executable
