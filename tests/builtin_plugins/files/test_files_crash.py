"""Killed in the middle of a change, or out of room on the disk: the old content or the new, never half."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import file_hands
import pytest
from file_hands import Hands, tree
from pluggent_hookspecs import ToolError

OLD = "old line\n" * 5_000
NEW = "new line\n" * 5_000
SUPPORT = str(Path(file_hands.__file__).parent)
DIES = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from file_hands import Hands

def dying(call, is_write):
    def called(*arguments, **more):
        global left
        left -= 1
        if left == 0:
            if is_write:  # half of it
                call(arguments[0], arguments[1][: len(arguments[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **more)
    return called

def work(folder):
    hands = Hands(folder)
    hands("read_file", path="a.txt")
    for name in ("open", "write", "fchmod", "fchown", "fsync", "link", "replace", "rename", "unlink", "mkdir", "close"):
        setattr(os, name, dying(getattr(os, name), name == "write"))
    CALL

for number in range(1, 200):
    folder = Path(sys.argv[2]) / str(number)
    folder.mkdir()
    (folder / "a.txt").write_text("old line\\n" * 5_000)
    left = number
    if (child := os.fork()) == 0:
        work(folder)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        break
    print("killed")
"""
CALLS = {
    "edit": """hands.edit("a.txt", "old line", "new line", replace_all=True)""",
    "write": """hands("write_file", path="a.txt", content="new line\\n" * 5_000)""",
    "new": """hands("write_file", path="folder/b.txt", content="new line\\n" * 5_000)""",
    "move": """hands("move_file", path="a.txt", to="folder/b.txt")""",
}


@pytest.mark.parametrize("call", CALLS)
def test_killed_at_any_system_call_a_file_is_old_or_new(tmp_path, call):
    command = [sys.executable, "-c", DIES.replace("CALL", CALLS[call]), SUPPORT, str(tmp_path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)  # noqa: S603

    assert done.stdout.count("killed") > 8
    for folder in tmp_path.iterdir():
        contents = {path.name: path.read_text() for path in folder.rglob("*.txt")}
        assert set(contents.values()) <= {OLD, NEW}
        assert OLD in contents.values() or (call != "new" and NEW in contents.values())


def test_a_file_that_may_not_grow_leaves_the_old_one(tmp_path):
    hands = Hands(tmp_path)
    hands("write_file", path="a.txt", content="old\n")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
        with pytest.raises(ToolError, match=r"could not be written: File too large. It is as it was before"):
            hands("write_file", path="a.txt", content="x" * 20_000)
        with pytest.raises(ToolError, match="File too large"):
            hands("write_file", path="new/b.txt", content="x" * 20_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)

    assert tree(tmp_path) == {"a.txt": b"old\n"}


FULL = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from file_hands import Hands, tree
from pluggent_hookspecs import ToolError
folder = Path(sys.argv[2])
hands = Hands(folder)
hands("write_file", path="a.txt", content="old\\n")
hands("write_file", path="filler.txt", content="x" * 700_000)
for call in (
    lambda: hands("write_file", path="a.txt", content="y" * 500_000),
    lambda: hands.edit("a.txt", "old", "y" * 500_000),
    lambda: hands("write_file", path="new/b.txt", content="y" * 500_000),
):
    try:
        call()
    except ToolError as error:
        assert "No space left on device. It is as it was before" in str(error), error
    else:
        raise AssertionError("the disk was not full")
assert tree(folder) == {"a.txt": b"old\\n", "filler.txt": b"x" * 700_000}, list(tree(folder))
"""


@pytest.mark.skipif(os.getuid() != 0 or sys.platform != "linux", reason="only root mounts a small disk")
def test_a_full_disk_leaves_the_old_file(tmp_path):
    script = f'mount -t tmpfs -o size=1m tmpfs {tmp_path} && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", FULL, SUPPORT, str(tmp_path)]

    done = subprocess.run(command, check=False, capture_output=True, text=True, env={**os.environ})  # noqa: S603

    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"this machine lets nothing be mounted: {done.stderr.strip()}")
    assert (done.returncode, done.stderr) == (0, "")
