"""Attacks on the tool that runs commands: what an approval covers, what a confined command reaches, and races.

Against rules 7, 8, 11, 16, 28, 32 and 44.
"""

import asyncio
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from git_folders import RUNS, git, git_looks_at, repository
from pluggent_hookspecs import Approval, ApprovalEvent
from pluggent_host import HostSettings
from pluggent_process_engine.mechanisms import Mechanisms
from pluggent_shell.plugin import Shell
from pluggent_shell.settings import ShellSettings
from policy_stage import stage
from programs import linux, only

pytestmark = [linux, pytest.mark.usefixtures("patience")]


@pytest.fixture(params=["bubblewrap", "landlock"])
def confined(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have this machine confine commands by one mechanism; skip where it does not work."""
    monkeypatch.setattr("pluggent_process_engine.mechanisms._found", only(request.param))
    return str(request.param)


@pytest.fixture
def tmp_path(disk_path: Path) -> Path:
    """Return a folder that confined programs cannot write to by itself."""
    return disk_path


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    """Return a repository with a worktree of its own, ``work``, in which .git is a file."""
    main = repository(tmp_path / "main")
    git(main, "worktree", "add", "-q", str(tmp_path / "work"))
    return main


async def results(workspace: Path, *calls: dict[str, Any], approver: Any = None, **settings: Any) -> list[str]:
    """Return what each of *calls* of ``run_command`` says, made one after the other under all policies."""
    async with stage(
        plugins=[Shell(ShellSettings(**settings))], approver=approver or agreeing(), workspace=workspace,
        config=HostSettings(on_ask="deny"),
    ) as here:  # fmt: skip
        return [str((await here.session.call_tool("run_command", call)).for_model) for call in calls]


def agreeing(change: Callable[[], object] = lambda: None) -> Callable[[ApprovalEvent], Approval]:
    """Return an approver that agrees once to each request; *change* happens in front of it."""

    def approve(_: ApprovalEvent) -> Approval:
        change()
        return Approval(agreed=True)

    return approve


class Once:
    """Agrees to the first request for good, and to no other one."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, _: ApprovalEvent) -> Approval:
        self.asked += 1
        return Approval(agreed=self.asked == 1, reach="always")


ANOTHER_COMMAND = [
    "echo ok; touch ran", "echo ok && touch ran", "echo ok || touch ran; touch ran", "echo ok | touch ran",
    "echo ok & touch ran", "echo ok\ntouch ran", "echo ok # comment\ntouch ran", "echo ok \\\n; touch ran",
    "echo ok $(touch ran)", "echo ok `touch ran`", 'echo ok "$(touch ran)"', "echo ok ${x:-$(touch ran)}",
    "echo ok > ran", "echo ok >ran", "> ran echo ok", "1>ran echo ok", "echo ok 2>ran", "echo ok &> ran",
    "echo ok >& ran", "echo ok >| ran", "echo ok <> ran", "echo ok <(touch ran)", "(echo ok; touch ran)",
    "(echo ok) > ran", "{ echo ok; touch ran; }", "if echo ok; then touch ran; fi",
    "while echo ok; do touch ran; break; done",
    "! echo ok || touch ran", "time echo ok; touch ran", "echo() { touch ran; }; echo ok",
    "echo () ( touch ran ); echo ok",
    "alias echo='touch ran #'\necho ok", "trap 'touch ran' EXIT; echo ok", "eval 'echo ok; touch ran'",
    "exec touch ran",
    "cat <<END\n$(touch ran)\nEND", "echo ok <<END\nEND\ntouch ran", "PATH=. echo ok; touch ran",
    "echo ok |& touch ran",
    "echo ok;; touch ran", "echo ok {a,$(touch ran)}", "echo ok $((x=$(touch ran)1))", "echo 'ok' '\ntouch ran",
    "echo ok \u2028touch ran", "echo\u00a0ok; touch ran", "echo ok\r\ntouch ran", "echo ok\x00; touch ran",
    ["sh", "-c", "echo ok; touch ran"], ["echo", "ok;", "touch", "ran"], ["touch", "ran"], ["echo ok"],
    "command echo ok; touch ran", "env echo ok", "./echo ok", "/bin/echo ok", "echo ok .", "echo", "x=1 echo ok",
    "cd .; echo ok",
]  # fmt: skip


@pytest.mark.parametrize("command", ANOTHER_COMMAND, ids=str)
async def test_an_approval_of_a_command_covers_no_other_one(tmp_path: Path, command: str | list[str]):
    once = Once()

    first, second = await results(
        tmp_path, {"command": "echo ok"}, {"command": command}, approver=once, confinement="off"
    )

    assert first.endswith("ok\n")
    assert "exit status" not in second
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("more", [{"cwd": "sub"}, {"network": True}, {"cwd": "/"}])
async def test_an_approval_covers_neither_another_folder_nor_the_network(
    tmp_path: Path, confined: str, more: dict[str, Any]
):
    (tmp_path / "sub").mkdir()
    once = Once()

    await results(tmp_path, {"command": "echo ok"}, {"command": "echo ok", **more}, approver=once)

    assert once.asked == 2


@pytest.mark.parametrize(
    "command", ["echo ok", "  'echo'  ok  # again", 'echo "ok"', ["echo", "ok"], "echo ok; echo ok"]
)
async def test_an_approval_covers_the_same_command_in_other_words(tmp_path: Path, command: str | list[str]):
    once = Once()

    await results(tmp_path, {"command": "echo ok"}, {"command": command}, approver=once, confinement="off")

    assert once.asked == 1


async def test_a_command_that_was_approved_as_confined_does_not_run_otherwise(
    tmp_path: Path, confined: str, monkeypatch: pytest.MonkeyPatch
):
    def unconfine() -> None:
        monkeypatch.setattr("pluggent_process_engine.mechanisms._found", Mechanisms(why_not="removed"))

    (said,) = await results(tmp_path, {"command": "touch ran"}, approver=agreeing(unconfine))

    assert "changed since it was approved" in said
    assert not (tmp_path / "ran").exists()


async def test_a_folder_that_becomes_a_link_after_it_was_approved_is_not_run_in(tmp_path: Path):
    work, other = tmp_path / "work", tmp_path / "other"
    (work / "sub").mkdir(parents=True)
    other.mkdir()

    def swap() -> None:
        (work / "sub").rmdir()
        (work / "sub").symlink_to(other)

    (said,) = await results(work, {"command": "touch ran", "cwd": "sub"}, approver=agreeing(swap), confinement="off")

    assert "exit status" not in said
    assert not list(other.iterdir())


async def test_without_a_person_nothing_runs(tmp_path: Path):
    (said,) = await results(tmp_path, {"command": "touch ran"}, approver=lambda _: Approval(agreed=False))

    assert "exit status" not in said
    assert not (tmp_path / "ran").exists()


# ---- what a confined command reaches ----------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "touch {out}/ran", "ln -s {out} l; touch l/ran", "mkdir -p d; mv d {out}/ran", "cp /bin/true {out}/ran",
        "ln {out}/there {out}/ran", "cd {out}; touch ran", "touch /proc/1/root{out}/ran",
        "touch /proc/self/root{out}/ran",
        "mount --bind {out} . ; touch ran", "unshare -r touch {out}/ran",
        "unshare -rm sh -c 'mount -o remount,rw / ; touch {out}/ran'",
        "setsid sh -c 'touch {out}/ran'", "(touch {out}/ran &); true", "chroot /proc/1/root touch {out}/ran",
        "nsenter -t 1 -m touch {out}/ran", "python3 -c \"open('{out}/ran','w')\"", "env -i touch {out}/ran",
    ],
)  # fmt: skip
async def test_a_confined_command_writes_nothing_elsewhere(tmp_path: Path, confined: str, command: str):
    work, out = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    out.mkdir()
    (out / "there").write_text("there")

    await results(work, {"command": command.format(out=out)}, confinement="required")

    assert [*out.iterdir()] == [out / "there"]
    assert (out / "there").read_text() == "there"


@pytest.mark.parametrize(
    "command",
    [
        "printf '{evil}' > .git/config", "rm -f .git/config; printf '{evil}' > .git/config", "mv evil .git/config",
        "mv .git g; mkdir .git; cp -r g/* .git; printf '{evil}' > .git/config",
        "git config core.fsmonitor 'touch {ran}; false'",
        "cp -r .git e; rm -f e/config; printf '{evil}' > e/config; echo ../e > .git/commondir",
        "ln -sf ../evil .git/config",
        "printf '#!/bin/sh\\ntouch {ran}' > .git/hooks/post-index-change; chmod +x .git/hooks/*",
        "mkdir -p .git/info; printf '{evil}' > sub/.git/config",
        "rm -rf .git/hooks; mkdir .git/hooks; cp hook .git/hooks/pre-commit",
        "mkdir sub/.git/hooks; cp hook sub/.git/hooks/pre-commit",
        "rm -rf .git; git init -q; printf '{evil}' > .git/config",
    ],
)  # fmt: skip
async def test_a_confined_command_leaves_nothing_that_git_runs_later(tmp_path: Path, confined: str, command: str):
    work, ran = repository(tmp_path / "work"), tmp_path / "ran"
    repository(work / "sub")
    shutil.rmtree(work / "sub" / ".git" / "hooks")
    (work / "evil").write_text(RUNS.format(ran))
    (work / "hook").write_text(f"#!/bin/sh\ntouch {ran}")
    (work / "hook").chmod(0o755)
    evil = RUNS.format(ran).replace("\n", "\\n").replace("\t", "\\t")

    await results(work, {"command": command.format(evil=evil, ran=ran)}, confinement="required")
    for each in (work, work / "sub"):
        await git_looks_at(each)
        await asyncio.to_thread(git, each, "commit", "-q", "--allow-empty", "-m", "b")

    assert not ran.exists()


async def test_a_file_that_leads_git_elsewhere_is_not_changed(tmp_path: Path, worktree: Path, confined: str):
    work, ran = tmp_path / "work", tmp_path / "ran"
    (work / "evil").write_text(RUNS.format(ran))
    command = f"cp -r {worktree}/.git e; cp -f evil e/config; echo 'gitdir: ./e' > .git"

    await results(work, {"command": command}, confinement="required")
    await git_looks_at(work)

    assert not ran.exists()


async def test_a_confined_command_sees_no_process_and_no_terminal_of_others(tmp_path: Path, confined: str):
    master, slave = os.openpty()
    os.set_blocking(master, False)
    try:
        terminal = os.ttyname(slave)
        said = await results(
            tmp_path,
            {"command": f"echo spoof > {terminal}"},
            {"command": "echo spoof > /dev/tty"},
            {"command": f"kill -0 {os.getpid()}"},
            {"command": f"cat /proc/{os.getpid()}/environ"},
            confinement="required",
        )
        with pytest.raises(BlockingIOError):
            os.read(master, 100)
    finally:
        os.close(master)
        os.close(slave)

    assert all("exit status 0" not in each for each in said)


async def test_a_confined_command_reaches_no_server_of_this_machine(tmp_path: Path, confined: str):
    connect = "import socket; s = socket.socket({0}); s.connect({1}); print('reached')"
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as abstract:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        abstract.bind("\0pluggent-hands")
        abstract.listen()
        said = await results(
            tmp_path,
            {"command": ["python3", "-c", connect.format("", tcp.getsockname())]},
            {
                "command": [
                    "python3",
                    "-c",
                    connect.format("socket.AF_UNIX", repr("\0pluggent-hands").replace("\\x00", "\\0")),
                ]
            },
            confinement="required",
        )

    assert all("reached" not in each for each in said)


async def test_a_command_gets_no_key_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ACME_API_KEY", "hidden-word")
    monkeypatch.setenv("LD_PRELOAD_X", "hidden-word")

    (said,) = await results(tmp_path, {"command": "env; set; export -p"}, confinement="off")

    assert "hidden-word" not in said
