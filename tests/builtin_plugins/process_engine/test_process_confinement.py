"""What a confined program can and cannot reach, by each mechanism that this machine has."""

# Scripts on one line, and the places that they attack.
# ruff: noqa: E501, S108

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from pluggent_process_engine.confinement import bubblewrap_arguments, choose, home_secrets
from pluggent_process_engine.mechanisms import Mechanisms, mechanisms
from pluggent_process_engine.program import Confined, Confinement, ConfinementError, Limits, Program
from pluggent_process_engine.running import run
from programs import linux, only, ran

pytestmark = linux
each = pytest.mark.parametrize("how", ["bubblewrap", "landlock"])


class Places:
    """A home with secrets, a workspace in it, and a folder for /tmp."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.workspace = self.home / "project"
        self.tmp = folder / "private"
        for made in (self.workspace / ".git" / "hooks", self.home / ".ssh", self.home / ".config" / "gh", self.tmp):
            made.mkdir(parents=True)
        (self.home / ".ssh" / "id").write_text("SECRET")
        (self.home / ".config" / "gh" / "hosts.yml").write_text("SECRET")
        (self.home / ".netrc").write_text("SECRET")
        (self.home / "notes").write_text("notes")
        (self.home / "link").symlink_to(self.home / ".ssh")
        (self.workspace / ".git" / "config").write_text("[core]")
        (self.workspace / "code").write_text("code\n")

    def confinement(self, **more) -> Confinement:
        options = {
            "writable": (self.workspace, self.workspace / ".git"),
            "read_only": (self.workspace / ".git" / "hooks", self.workspace / ".git" / "config"),
            "hidden": home_secrets(self.home),
            "private_tmp": self.tmp,
        }
        return Confinement(**{**options, **more})

    async def run(self, script: str, how: str, **more) -> str:
        """Return the output of *script*, run in the workspace."""
        # All of this is below /tmp, of which nothing is there otherwise.
        confinement = self.confinement(**more)
        confinement = Confinement(
            writable=confinement.writable, read_only=(*confinement.read_only, self.home), hidden=confinement.hidden,
            private_tmp=confinement.private_tmp, network=confinement.network,
        )  # fmt: skip
        outcome, said = await ran(
            "sh", "-c", script, cwd=self.workspace, confinement=confinement, found=only(how), limits=Limits(wall_s=20)
        )
        assert outcome.confined.how == how
        return said


@pytest.fixture
def tmp_path(disk_path):
    """Return a folder that confined programs cannot write to by itself."""
    return disk_path


@pytest.fixture
def places(tmp_path):
    return Places(tmp_path)


@each
async def test_the_workspace_is_read_and_written(how, places):
    said = await places.run("cat code; echo new > new; mkdir -p a/b; mv new a/b/; ln a/b/new c; rm code; ls", how)

    assert said.split() == ["code", "a", "c"]
    assert (places.workspace / "a" / "b" / "new").read_text() == "new\n"


@each
async def test_nothing_is_written_outside(how, places):
    script = (
        "for f in ../notes ../new /etc/new /usr/new /new ../.ssh/new; do (echo x > $f) 2>/dev/null && echo $f; done"
    )
    attempts = f"{script}; rm ../notes; mv ../notes x; chmod 777 ../notes; truncate -s 0 ../notes; ln ../notes l"

    said = await places.run(f"({attempts}) 2>/dev/null; :", how)

    assert said == ""
    assert (places.home / "notes").read_text() == "notes"
    assert sorted(path.name for path in places.home.iterdir()) == [
        ".config", ".netrc", ".ssh", "link", "notes", "project",
    ]  # fmt: skip
    if how == "bubblewrap":  # Landlock does not rule over modes
        assert (places.home / "notes").stat().st_mode & 0o777 != 0o777


@each
@pytest.mark.parametrize(
    "script",
    [
        "cat ../.ssh/id", "cat ../link/id", "cat ../.netrc", "cat ../.config/gh/hosts.yml", "cp -r .. copy; cat copy/*",
        "tar c .. | cat", "cat /proc/self/root{home}/.ssh/id", "ln -s ../.ssh s; cat s/id", "cat /proc/1/root{home}/.netrc",
        "mount --bind / x; cat x{home}/.netrc", "umount {home}/.ssh; cat ../.ssh/id", "umount -l {home}/.netrc; cat ../.netrc",
        "unshare -Urm sh -c 'umount {home}/.ssh; umount -l {home}/.netrc; cat ../.ssh/id ../.netrc'",
        "chroot / cat {home}/.netrc", "debugfs -R 'cat /etc/shadow' /dev/vda", "mv ../.ssh x; cat x/id",
    ],
)  # fmt: skip
async def test_secrets_are_not_read(script, how, places):
    said = await places.run(f"({script.replace('{home}', str(places.home))}) 2>&1; :", how)

    assert "SECRET" not in said


@each
async def test_what_is_not_secret_is_read(how, places):
    assert await places.run("cat ../notes /etc/hostname > /dev/null && cat ../notes", how) == "notes"


@each
async def test_services_are_not_reached_by_their_sockets(how, places):
    if how == "landlock" and not only(how).netns:
        pytest.skip("namespaces are not permitted")
    path = f"/run/pluggent-test-{os.getpid()}"
    if not os.access("/run", os.W_OK):
        pytest.skip("only root makes sockets in /run")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        try:
            script = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{path}'); print('connected')"
            said = await places.run(f'python3 -c "{script}" 2>/dev/null; getent hosts localhost > /dev/null; :', how)
        finally:
            os.unlink(path)  # noqa: PTH108 (a socket of this test)

    assert said == ""


@each
async def test_there_is_no_network_but_loopback(how, places):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        accepted: list[object] = []

        server.settimeout(20)

        def serve() -> None:
            with suppress(OSError):
                accepted.append(server.accept()[0].close())

        thread = threading.Thread(target=serve)
        thread.start()
        said = await places.run(
            f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' 2>/dev/null && echo connected;"
            " bash -c 'exec 3<>/dev/udp/192.0.2.1/53 && echo query >&3' 2>/dev/null && echo sent; :",
            how,
        )
        with socket.create_connection(("127.0.0.1", port)):
            thread.join()

    assert said == ""
    assert len(accepted) == 1


@each
async def test_a_program_may_serve_itself_on_loopback(how, places):
    if how == "landlock" and not only(how).netns:
        pytest.skip("namespaces are not permitted")
    script = (
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\n"
        "c = socket.create_connection(s.getsockname())\nprint('connected')"
    )

    assert await places.run(f'python3 -c "{script}"', how) == "connected\n"


@each
async def test_the_network_is_there_where_it_is_granted(how, places):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        said = await places.run(f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}' && echo connected", how, network=True)

    assert said == "connected\n"


@each
async def test_the_terminal_of_the_person_is_out_of_reach(how, places):
    ours, theirs = os.openpty()
    try:
        said = await places.run(
            f"(echo forged > {os.ttyname(theirs)} && echo written; ls /dev/pts/[0-9]*) 2>/dev/null; :", how
        )
        os.set_blocking(ours, False)
        with pytest.raises(BlockingIOError):
            os.read(ours, 100)
    finally:
        os.close(ours)
        os.close(theirs)

    assert said == ""


@each
async def test_other_processes_are_out_of_reach(how, places):
    me = os.getpid()

    said = await places.run(
        f"(cat /proc/{me}/environ | tr '\\0' '\\n' | head -1; kill -0 {me} && echo reached) 2>/dev/null; :", how
    )

    assert said == ""


@each
async def test_settings_of_the_repository_stay_as_they_are(how, places):
    if how == "landlock" and not only(how).netns:
        pytest.skip("namespaces are not permitted")
    script = """
    echo evil > .git/config; echo evil > .git/hooks/pre-commit; rm -rf .git/hooks .git/config
    mv .git old; mkdir .git; cp -r old/. .git; mv .git/config x; mv x .git/config; ln -sf x .git/config
    git config core.fsmonitor evil
    """

    await places.run(f"({script}) 2>/dev/null; :", how)

    assert (places.workspace / ".git" / "config").read_text() == "[core]"
    assert list((places.workspace / ".git" / "hooks").iterdir()) == []


async def test_the_tmp_is_private_below_bubblewrap(places):
    said = await places.run("cd /tmp && echo x > mine; ls; echo $$ > /dev/shm/x && ls /run /var/tmp", "bubblewrap")

    assert "mine" in said
    assert (places.tmp / "mine").read_text() == "x\n"
    assert "docker.sock" not in said


@each
async def test_a_private_tmp_can_be_written_by_its_own_name_below_landlock(how, places):
    folder = "/tmp" if how == "bubblewrap" else places.tmp

    assert await places.run(f"echo x > {folder}/a; cat {folder}/a; cat < /dev/null > /dev/null", how) == "x\n"


@each
async def test_no_privileges_can_be_gained(how, places):
    said = await places.run("grep -E 'NoNewPrivs|CapEff' /proc/self/status", how)

    fields = dict(line.split(":\t") for line in said.splitlines())
    assert fields["NoNewPrivs"] == "1"
    assert int(fields["CapEff"], 16) & ~0b1011 == 0  # CHOWN, DAC_OVERRIDE, FOWNER


@each
async def test_the_ways_out_of_a_mount_are_closed(how, places):
    said = await places.run(
        "(mount -o remount,rw / && echo remounted; read p < /proc/sys/kernel/core_pattern; echo $p > /proc/sys/kernel/core_pattern && echo pattern;"
        " mknod d b 254 0 && cat d > /dev/null && echo disk; echo h > /proc/sysrq-trigger && echo sysrq) 2>/dev/null; :",
        how,
    )

    assert said == ""


async def test_a_program_that_is_not_there_is_an_error_below_bubblewrap(tmp_path):
    with pytest.raises(Exception, match=r"could not run 'no-such-program'.*No such file"):
        await run(Program(["no-such-program"], cwd=tmp_path, confinement=Confinement()), found=only("bubblewrap"))


@each
async def test_no_descriptor_of_the_launcher_is_left_open(how, places):
    said = await places.run("ls /proc/self/fd | wc -l", how)

    assert int(said) == 4


# Choosing

BOTH = Mechanisms(bubblewrap="/usr/bin/bwrap", landlock=7, netns=True)
KERNEL = Mechanisms(landlock=7, netns=True, why_not="W")
OLD = Mechanisms(landlock=1, why_not="W")
NOTHING = Mechanisms(why_not="W")
WHY = "W, and namespaces are not permitted"


@pytest.mark.parametrize(
    ("found", "wanted", "confined"),
    [
        (BOTH, None, Confined()),
        (BOTH, Confinement(), Confined("bubblewrap", "none")),
        (BOTH, Confinement(network=True), Confined("bubblewrap", "host")),
        (KERNEL, Confinement(), Confined("landlock", "none", "W")),
        (KERNEL, Confinement(network=True), Confined("landlock", "host", "W")),
        (Mechanisms(landlock=4, why_not="W"), Confinement(), Confined("landlock", "no tcp", WHY)),
        (OLD, Confinement(), Confined("landlock", "host", WHY)),
        (NOTHING, Confinement(), Confined("none", "host", "W, and this kernel has no Landlock")),
    ],
)
def test_the_best_mechanism_is_chosen_and_what_is_missing_is_said(found, wanted, confined):
    assert choose(wanted, found) == confined


@pytest.mark.parametrize("found", [NOTHING, OLD])
def test_what_is_required_and_not_there_is_an_error(found):
    with pytest.raises(ConfinementError, match="W, and"):
        choose(Confinement(required=True), found)


def test_the_deepest_place_wins(tmp_path):
    for name in ("a/b/c", "d"):
        (tmp_path / name).mkdir(parents=True)
    wanted = Confinement(
        writable=(tmp_path, tmp_path / "a" / "b" / "c"), hidden=(tmp_path / "a" / "b",), read_only=(tmp_path / "d",)
    )

    arguments = list(bubblewrap_arguments(wanted, tmp_path, root=False))

    order = [arguments.index(str(tmp_path / name), arguments.index("/tmp") + 1) for name in ("", "d", "a/b", "a/b/c")]
    assert order == sorted(order)


async def test_mechanisms_are_tried_once():
    assert await mechanisms() is await mechanisms()
