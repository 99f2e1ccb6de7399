"""``run_command`` in a host: what a person is asked, what runs, what the model reads, what stays behind."""

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pluggent_hookspecs import ToolProgressed
from pluggent_hookspecs.events import ApprovalEvent
from pluggent_host import Approval, Host, HostSettings
from pluggent_process_engine.mechanisms import Mechanisms
from pluggent_shell.plugin import Shell
from pluggent_shell.settings import ShellSettings
from pluggent_testing.fakes import Recorder, ScriptedModel, call
from programs import WAIT_S, Marked, linux, only, ran

pytestmark = linux
AGREED = Approval(agreed=True)
each = pytest.mark.parametrize("how", ["bubblewrap", "landlock"])


class Person:
    """Agrees, and keeps what was shown."""

    def __init__(self, answer: Approval | Callable[[], Approval] = AGREED) -> None:
        self.answer = answer
        self.seen: list[str] = []

    def __call__(self, event: ApprovalEvent) -> Approval:
        self.seen.append(event.rendered)
        return self.answer() if callable(self.answer) else self.answer


class Talk(NamedTuple):
    """The results of calls of ``run_command`` in one session."""

    person: Person
    texts: list[str]
    recorder: Recorder


async def talk(
    workspace: Path, *calls: dict[str, Any], person: Person | None = None, tool: str = "run_command", **settings: Any
) -> Talk:
    """Let a model make *calls*, one after the other, in *workspace*."""
    asked = person or Person()
    recorder = Recorder()
    model = ScriptedModel(*(call(tool, str(n), **arguments) for n, arguments in enumerate(calls)), "done")
    async with asyncio.timeout(WAIT_S), Host.open(
        model="scripted/m", plugins=[model, recorder, Shell(ShellSettings(**settings))], installed=False,
        approver=asked, config=HostSettings(fsync="off"), workspace=workspace,
    ) as host, await host.session() as session:  # fmt: skip
        result = await session.say("go")
        assert result.text == "done", result
        results = [message for message in session.history if message.role == "tool"]
    return Talk(asked, [message.text for message in results], recorder)


@pytest.fixture
def machine(monkeypatch) -> Callable[[str], None]:
    """Return a function that makes this machine one that has a single mechanism."""

    def have(how: str) -> None:
        found = only(how) if how != "none" else Mechanisms(why_not="bubblewrap is not installed")
        monkeypatch.setattr("pluggent_process_engine.mechanisms._found", found)

    return have


async def test_a_person_is_asked_and_the_model_reads_the_end_and_the_output(tmp_path):
    done = await talk(tmp_path, {"command": "echo hello; exit 3"}, confinement="off")

    assert len(done.person.seen) == 1
    assert done.texts[0].startswith("exit status 3 after ")
    assert done.texts[0].endswith(", not confined\nhello\n")


async def test_a_refusal_runs_nothing(tmp_path):
    await talk(tmp_path, {"command": "touch made"}, person=Person(Approval(agreed=False)), confinement="off")

    assert list(tmp_path.iterdir()) == []


@each
async def test_the_person_reads_each_command_and_what_it_can_reach(how, machine, tmp_path):
    machine(how)

    done = await talk(
        tmp_path, {"command": "mkdir build && (cd build; make 2>&1) > 'build log'"}, env={"TOKEN": "s3cret"}
    )

    shown = done.person.seen[0]
    assert (
        "runs 4 commands\n  1. mkdir build\n    2. && cd build\n    3. make  2>&1\n  4. (all of these)  > 'build log'\n"
        in shown
    )
    assert f"in {tmp_path}\nconfined by {how}, no network" in shown
    assert f"writes to {tmp_path} and a private /tmp" in shown
    assert "no network" in shown
    assert "environment: TOKEN from the settings" in shown
    assert "s3cret" not in shown


@each
async def test_a_repository_in_the_workspace_is_no_place_of_its_own_for_the_person(how, machine, tmp_path):
    machine(how)
    for made in (".git", "bare/objects", "bare/refs"):
        (tmp_path / made).mkdir(parents=True)
    (tmp_path / "bare" / "HEAD").touch()

    done = await talk(tmp_path, {"command": "true"})

    assert f"writes to {tmp_path} and a private /tmp" in done.person.seen[0]


async def test_a_line_that_cannot_be_split_is_shown_whole(tmp_path):
    done = await talk(tmp_path, {"command": "for x in a b; do\n echo $x; done"}, confinement="off")

    assert "cannot be split into its commands: it has the compound command 'for'" in done.person.seen[0]
    assert done.texts[0].endswith("a\nb\n")


@each
async def test_a_confined_command_writes_in_the_workspace_alone(how, machine, tmp_path, monkeypatch):
    machine(how)
    (tmp_path / "home" / ".ssh").mkdir(parents=True)
    (tmp_path / "home" / ".ssh" / "id").write_text("SECRET")
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    line = "echo x > inside; echo x > ../outside; cat ~/.ssh/id; echo $TMPDIR; echo y > $TMPDIR/t && cat $TMPDIR/t"

    done = await talk(tmp_path / "work", {"command": line}, {"command": "cat $TMPDIR/t"})

    assert (tmp_path / "work" / "inside").read_text() == "x\n"
    assert not (tmp_path / "outside").exists()
    assert "SECRET" not in done.texts[0]
    assert done.texts[1].endswith("y\n")  # the session's


REPOSITORY = (
    "git init -q . && git config user.email a@b.example && git config user.name A && git commit -q --allow-empty -m 1"
)
NAMED = "mkdir own; git config core.hooksPath own; echo > included; git config include.path ../included"
ATTACKS_ON_GIT = {
    "other settings": "cp -r .git evil; git config -f evil/config core.fsmonitor {run}; echo ../evil > .git/commondir",
    "other settings by replacing": "cp -r .git evil; git config -f evil/config core.fsmonitor {run}; echo ../evil > c;"
    " mv -f c .git/commondir; rm .git/commondir; ln -s ../c .git/commondir",
    "the settings": "git config core.fsmonitor {run}; echo '[core] fsmonitor = {run}' >> .git/config",
    "settings of the worktree": "git config --worktree core.fsmonitor {run}; echo x > .git/config.worktree",
    "the whole folder": "cp -r .git evil; git config -f evil/config core.fsmonitor {run}; mv .git x; mv evil .git",
    "hooks": "rm -rf .git/hooks; mkdir -p .git/hooks; cp {run} .git/hooks/post-index-change",
    "a submodule": "git -C sub config core.fsmonitor {run}; git add sub;"
    " echo '[core] fsmonitor = {run}' >> sub/.git/config",
    "hooks elsewhere": "cp {run} own/post-index-change; mkdir -p own; mv own x; echo x > included",
    "a file for the folder": "cp -r .git evil; git config -f evil/config core.fsmonitor {run}; rm -rf .git;"
    " mv .git x; echo 'gitdir: ./evil' > .git",
}


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
@pytest.mark.parametrize("attack", ATTACKS_ON_GIT.values(), ids=ATTACKS_ON_GIT)
@pytest.mark.parametrize("hooks", ["", "rm -rf .git/hooks"])
@each
async def test_git_runs_nothing_later_that_a_confined_command_has_written(how, attack, hooks, machine, tmp_path):
    machine(how)
    if how == "landlock" and not only(how).netns:
        pytest.skip("namespaces are not permitted")
    work, ran_file = tmp_path / "work", tmp_path / "executed"
    (work / "sub").mkdir(parents=True)
    (tmp_path / "run").write_text(f"#!/bin/sh\ntouch {ran_file}\n")
    (tmp_path / "run").chmod(0o755)
    await ran("sh", "-c", f"{REPOSITORY}; cd sub; {REPOSITORY}; cd ..; {hooks}; {NAMED}", cwd=work)

    done = await talk(work, {"command": attack.replace("{run}", str(tmp_path / "run"))})
    _, said = await ran("sh", "-c", "git status; git add -A; git commit -qm 2; git -C sub status", cwd=work)

    assert f"confined by {how}" in done.texts[0]
    assert not ran_file.exists(), said
    assert not (work / ".git" / "commondir").exists()


INNER = "git init -q inner"
BARE = "git init -q --bare inner"
NEW_REPOSITORIES = {
    "settings": f"{INNER}; git -C inner config core.fsmonitor {{run}}",
    "settings of a bare one": f"{BARE}; git -C inner config core.fsmonitor {{run}};"
    " git -C inner config core.bare false; git -C inner config core.worktree .",
    "settings on one line": f"{INNER}; echo '[core] fsmonitor = {{run}}' > inner/.git/config",
    "settings after a continued line": f"{INNER}; printf '[user]\\nname = a\\\\\\n\\n[core]\\nfsmonitor = {{run}}\\n'"
    " > inner/.git/config",
    "settings that are included": f"{INNER}; echo '[core] fsmonitor = {{run}}' > more;"
    " git -C inner config include.path ../../more",
    "hooks": f"{INNER}; cp {{run}} inner/.git/hooks/post-index-change",
    "hooks elsewhere": f"{INNER}; cp {{run}} inner/post-index-change; git -C inner config core.hooksPath .",
    "settings in another folder": "git init -q --bare evil; rm evil/HEAD;"
    " git config -f evil/config core.fsmonitor {run}; git config -f evil/config core.bare false;"
    " git config -f evil/config core.worktree ../inner; mkdir inner;"
    " echo 'ref: refs/heads/main' > inner/HEAD; echo ../evil > inner/commondir",
    "a file for the folder": f"{INNER}; git -C inner config core.fsmonitor {{run}}; mv inner/.git cache/evil;"
    " echo gitdir: ../cache/evil > inner/.git",
    "a link for the folder": f"{INNER}; git -C inner config core.fsmonitor {{run}}; mv inner/.git cache/evil;"
    " ln -s ../cache/evil inner/.git",
    "a submodule": f"{INNER}; git init -q other; git -C other config core.fsmonitor {{run}}; mkdir inner/.git/modules"
    " inner/sub; mv other/.git inner/.git/modules/sub; echo gitdir: ../.git/modules/sub > inner/sub/.git",
    "a worktree": f"{INNER}; cd inner; git -c user.name=A -c user.email=a@b.example commit -q --allow-empty -m 1;"
    " git worktree add -q ../tree; cp -r .git ../cache/evil; git config -f ../cache/evil/config core.fsmonitor {run};"
    " echo ../../../../cache/evil > .git/worktrees/tree/commondir",
    "a command that fails": f"{INNER}; git -C inner config core.fsmonitor {{run}}; kill -9 $$",
}


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
@pytest.mark.parametrize("attack", NEW_REPOSITORIES.values(), ids=NEW_REPOSITORIES)
@each
async def test_git_runs_nothing_of_a_repository_that_a_confined_command_has_made(how, attack, machine, tmp_path):
    machine(how)
    work, cache, ran_file = tmp_path / "work", tmp_path / "work" / "cache", tmp_path / "executed"
    cache.mkdir(parents=True)
    (work / "run").write_text(f"#!/bin/sh\ntouch {ran_file}\n")
    (work / "run").chmod(0o755)
    look = "for at in . inner inner/sub tree; do git -C $at status; git -C $at add -A; done"

    done = await talk(work, {"command": attack.replace("{run}", str(work / "run"))})
    _, said = await ran("sh", "-c", look, cwd=work)

    assert not ran_file.exists(), said
    assert "[new git repositories have settings or hooks that git would run" in done.texts[0]
    assert ".put-aside]" in done.texts[0]


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
@each
async def test_a_common_repository_that_a_command_makes_is_left_as_it_is(how, machine, tmp_path):
    machine(how)
    line = (
        f"mkdir a && cd a && {REPOSITORY} && git remote add origin https://example.org/a.git && git branch -M main"
        " && git clone -q . ../b && git worktree add -q ../c && git init -q --bare ../d && cd .."
        " && mkdir e && git init -q --separate-git-dir e/git e/work"
    )

    done = await talk(
        tmp_path, {"command": line}, {"command": "git -C a status && git -C c log && git -C e/work status"}
    )

    assert done.texts[0].endswith("[no output]")
    assert done.texts[1].startswith("exit status 0")
    assert list(tmp_path.rglob("*.put-aside*")) == []


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
@each
async def test_what_was_put_aside_stays_aside(how, machine, tmp_path):
    machine(how)
    line = "git config -f inner/.git/config core.fsmonitor evil"
    again = f"{line}; cd inner/.git; rm -f config; cp config.put-aside config; mv config.put-aside config"

    await talk(tmp_path, {"command": f"git init -q inner; {line}"}, {"command": again})

    assert (tmp_path / "inner" / ".git" / "config").read_text() == ""


async def test_below_landlock_a_repository_is_put_back_on_its_own_settings(machine, tmp_path):
    machine("landlock")
    (tmp_path / ".git").mkdir()
    line = "echo ../evil > .git/commondir; ln -sf ../evil .git/config.worktree; echo x > .git/HEAD"

    await talk(tmp_path, {"command": line})

    assert {path.name for path in (tmp_path / ".git").iterdir()} == {"HEAD", "hooks"}


@each
async def test_the_files_of_the_host_are_out_of_reach(how, machine, tmp_path):
    machine(how)
    person = Person()
    model = ScriptedModel(
        call("run_command", "1", command="cat state/sessions/*; rm -rf state; ls state/sessions"), "done"
    )
    async with Host.open(
        model="scripted/m", plugins=[model, Shell()], installed=False, approver=person, state_dir=tmp_path / "state",
        config=HostSettings(fsync="off"), workspace=tmp_path,
    ) as host, await host.session() as session:  # fmt: skip
        assert (await session.say("SECRET")).text == "done"
        text = next(message.text for message in session.history if message.role == "tool")

    assert "SECRET" not in text
    assert list((tmp_path / "state" / "sessions").iterdir())


# Approvals of later calls

ALWAYS = Approval(agreed=True, reach="session")


async def asked_about(folder: Path, *calls: dict[str, Any], **settings: Any) -> int:
    """Return how often a person, who always says "always", is asked about *calls*."""
    done = await talk(folder, *calls, person=Person(ALWAYS), **settings)
    return len(done.person.seen)


@pytest.mark.parametrize(
    ("second", "asked"),
    [
        ({"command": "echo  'a'"}, 1),
        ({"command": ["echo", "a"]}, 1),
        ({"command": "echo a && echo a"}, 1),
        ({"command": "echo a", "timeout_s": 5}, 1),
        ({"command": "echo a; echo b"}, 2),
        ({"command": "echo a > b"}, 2),
        ({"command": "echo $a"}, 2),
        ({"command": "X=1 echo a"}, 2),
        ({"command": "for a in a; do echo a; done"}, 2),
        ({"command": "echo a", "cwd": "sub"}, 2),
        ({"command": "echo a", "network": True}, 2),
    ],
)
async def test_an_approval_of_later_calls_covers_its_parts_alone(second, asked, machine, tmp_path):
    machine("landlock")
    (tmp_path / "sub").mkdir()

    assert await asked_about(tmp_path, {"command": "echo a"}, second) == asked


async def test_what_was_approved_as_confined_does_not_run_unconfined(machine, tmp_path):
    machine("landlock")
    person = Person()

    def answer() -> Approval:
        machine("none")
        return AGREED

    person.answer = answer
    done = await talk(tmp_path, {"command": "touch made"}, person=person)

    assert list(tmp_path.iterdir()) == []
    assert "confined by landlock" in person.seen[0]
    assert "exit status" not in " ".join(done.texts)


async def test_without_a_mechanism_only_a_person_lets_a_command_run(machine, tmp_path):
    machine("none")
    person = Person(ALWAYS)

    done = await talk(tmp_path, {"command": "echo a"}, {"command": "echo a"}, person=person)

    assert "not confined (bubblewrap is not installed" in person.seen[0]
    assert done.texts[0].endswith("a\n")
    assert "no person has agreed to this very call" in done.texts[1]


async def test_where_confinement_is_required_nothing_runs_without(machine, tmp_path):
    machine("none")

    done = await talk(tmp_path, {"command": "touch made"}, confinement="required")

    assert "it cannot be confined: bubblewrap is not installed" in done.texts[0]
    assert list(tmp_path.iterdir()) == []


def kept_folders() -> set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).glob("pluggent-shell-*")}


async def test_a_long_output_is_cut_in_the_middle_and_kept_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def second(request: Any) -> Any:
        text = request.messages[-1].text
        output_id = text.partition("output_id '")[2].partition("'")[0]
        return call("read_output", "2", output_id=output_id, first_line=500_000, lines=2)

    model = ScriptedModel(call("run_command", "1", command=["seq", "1000000"]), second, "done")
    async with Host.open(
        model="scripted/m", plugins=[model, Shell(ShellSettings(confinement="off"))], installed=False,
        approver=Person(), config=HostSettings(fsync="off"), workspace=tmp_path,
    ) as host, await host.session() as session:  # fmt: skip
        assert (await session.say("go")).text == "done"
        texts = [message.text for message in session.history if message.role == "tool"]

    assert len(texts[0]) < 25_000
    assert "\n1\n2\n3\n" in texts[0]
    assert texts[0].endswith("\n999999\n1000000\n")
    assert "of 1,000,000; read_output reads them" in texts[0]
    assert texts[1] == "500000\n500001\n"
    assert kept_folders() == set()


async def test_the_person_sees_the_output_while_the_command_runs(tmp_path):
    done = await talk(tmp_path, {"command": "echo first; sleep 0.3; echo second; printf third"}, confinement="off")

    messages = [event.message for event in done.recorder.of(ToolProgressed)]
    assert messages == ["first", "second\nthird"]


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("printf '\\033[31mred\\033[0m\\n'", "red\n"),
        ("printf '10 %%\\r20 %%\\rdone\\n'", "done\n"),
        ("printf '\\033]0;title\\007text'", "text"),
        ("printf '\\377\\376'", "[binary output, 2 bytes]"),
        ("head -c 100000 /dev/zero", "[binary output, 100,000 bytes]"),
        ("true", "[no output]"),
        ("printf 'gr\\303\\274n\\377'", "grün�"),
    ],
)
async def test_what_is_no_plain_text_is_made_readable(script, shown, tmp_path):
    done = await talk(tmp_path, {"command": script}, confinement="off")

    assert done.texts[0].partition("\n")[2] == shown


async def test_a_program_knows_that_nobody_answers(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "hush")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")
    line = "cat; env; tty"

    done = await talk(tmp_path, {"command": line}, confinement="off", env={"MINE": "1"}, inherit=["SSH_AUTH_SOCK"])

    said = done.texts[0]
    assert {"NO_COLOR=1", "TERM=dumb", "MINE=1", "SSH_AUTH_SOCK=/agent", "not a tty"} <= set(said.splitlines())
    assert "hush" not in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"command": "pwd", "cwd": "sub"}, "/sub\n"),
        ({"command": "pwd", "cwd": "gone"}, "cwd 'gone' is not a folder"),
        ({"command": "cd sub; pwd"}, "/sub\n"),
        ({"command": []}, "the command is empty"),
        ({"command": "  "}, "the command is empty"),
        ({"command": ["no-such-program"]}, "there is no program 'no-such-program'"),
        ({"command": "no-such-program"}, "not found"),
        ({"command": ["echo", "a\u0000b"]}, "NUL"),
        ({"command": "-x"}, "not found"),
        ({"command": ["echo", "$HOME", "*", ";"]}, "$HOME * ;\n"),
    ],
)
async def test_what_runs_is_what_was_said_and_what_cannot_run_says_why(arguments, said, tmp_path):
    (tmp_path / "sub").mkdir()

    done = await talk(tmp_path, arguments, confinement="off")

    assert said in done.texts[0]


async def test_the_time_limit_ends_everything(tmp_path):
    marked = Marked()

    done = await talk(
        tmp_path, {"command": "setsid sleep 60 & echo a; sleep 60", "timeout_s": 0.3}, confinement="off", env=marked.env
    )

    assert done.texts[0].startswith("ended by its time limit of 0.3 s, not confined\n")
    assert done.texts[0].endswith("a\n")
    assert marked.pids() == []


async def test_what_a_command_leaves_running_is_ended_and_said(tmp_path):
    marked = Marked()

    done = await talk(tmp_path, {"command": "sleep 60 & sleep 60 & echo started"}, confinement="off", env=marked.env)

    assert "[2 processes that it left running had to be ended" in done.texts[0]
    assert marked.pids() == []


async def test_cancelling_the_turn_ends_the_command(tmp_path):
    marked = Marked()
    running = asyncio.create_task(talk(tmp_path, {"command": "sleep 60"}, confinement="off", env=marked.env))
    await marked.until(lambda count: count > 0)

    running.cancel()
    with pytest.raises((asyncio.CancelledError, TimeoutError)):
        await running

    assert marked.pids() == []
