"""Folders of the state: made for this user alone, and refused where others can write (policy 32)."""

import asyncio
import os
from pathlib import Path

import pytest
from cli_support import umask
from each_of import each_of
from pluggent_hookspecs import private_folder
from pluggent_hookspecs.errors import ConfigError, SessionError
from pluggent_host import Host
from saved import FileStanding as Approvals


def say_hello(state: Path) -> None:
    """Say something in the session ``s`` of an application with the installed plugins."""

    async def main() -> None:
        async with Host.open(installed=True, state_dir=state) as host, await host.session("s") as session:
            await session.say("hello")

    asyncio.run(main())


@each_of("value", [0o002, 0, 0o077, 0o277])
def test_missing_folders_are_made_for_their_user_alone_whatever_the_umask(tmp_path: Path, value: int):
    root = tmp_path / str(value)
    root.mkdir()
    with umask(value):
        private_folder(root / "a" / "b" / "c")
        private_folder(root / "a" / "b" / "c")

    assert [path.stat().st_mode & 0o777 for path in sorted(root.rglob("*"))] == [0o700] * 3


def test_a_folder_that_is_there_keeps_its_mode(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a").chmod(0o755)

    private_folder(tmp_path / "a" / "b")
    private_folder(tmp_path / "a")

    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755


def test_a_folder_cannot_be_made_where_a_file_is(tmp_path: Path):
    (tmp_path / "a").write_text("")

    with pytest.raises(FileExistsError):
        private_folder(tmp_path / "a")
    with pytest.raises(NotADirectoryError):
        private_folder(tmp_path / "a" / "b")


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o703, 0o1777])
def test_a_state_that_others_can_write_is_refused_though_its_sessions_are_closed(tmp_path: Path, mode: int):
    state = tmp_path / "my state"
    (state / "sessions").mkdir(mode=0o700, parents=True)
    state.chmod(mode)

    with pytest.raises(SessionError, match=rf"is open to others \(mode 0?{mode:o}\).*chmod go-w '{state}'"):
        say_hello(state)
    with pytest.raises(ConfigError, match="is open to others"):
        Approvals(state / "sessions").all()

    assert list((state / "sessions").iterdir()) == []


def test_sticky_folders_above_the_state_are_no_fault(tmp_path: Path):
    tmp_path.chmod(0o1777)

    say_hello(tmp_path / "state")

    assert (tmp_path / "state" / "sessions" / "s.jsonl").is_file()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_state_that_belongs_to_another_user_is_refused(tmp_path: Path):
    private_folder(tmp_path / "state" / "sessions")
    os.chown(tmp_path / "state", 4711, -1)

    with pytest.raises(SessionError, match=r"state: belongs to user 4711, not to you"):
        say_hello(tmp_path / "state")
