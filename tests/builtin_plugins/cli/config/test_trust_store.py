"""Which files and packages the user has accepted: until they change, and against changes of the store itself."""

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from each_of import each_of
from hypothesis import given, strategies as st
from pluggent_cli.trust.store import Accepted, TrustStore
from pluggent_hookspecs import ConfigError


@pytest.fixture
def store(tmp_path):
    return TrustStore(tmp_path / "state" / "pluggent" / "trust.json")


@pytest.fixture
def acme(store):
    """Return a store in which version 1.0 of acme was accepted."""
    store.acknowledge("acme", "1.0")
    return store


@pytest.fixture
def file(tmp_path):
    made = tmp_path / "project" / "pluggent.toml"
    made.parent.mkdir()
    made.write_text('model = "a/b"\n')
    return made


def edit(store: TrustStore, change: Callable[[list[dict[str, Any]]], object]) -> None:
    content = json.loads(store.path.read_text())
    change(content["records"])
    store.path.write_text(json.dumps(content))


# ---- files ------------------------------------------------------------------------------


def test_nothing_is_trusted_and_nothing_written_before_the_first_acceptance(store, file):
    assert not store.is_trusted(file)
    assert not store.acknowledged("acme", "1.0")
    assert not store.revoke(file)
    assert not store.forget("acme")
    assert store.entries() == store.problems() == ()
    assert not store.path.parent.exists()


def test_a_file_is_trusted_until_it_changes_and_again_when_it_is_accepted_again(store, file):
    assert store.trust_file(file) == (str(file),)
    assert store.is_trusted(file)

    file.write_text('model = "evil/b"\n')
    assert not store.is_trusted(file)
    assert store.entries() == (Accepted("file", str(file), (str(file),), "changed"),)

    store.trust_file(file)
    assert store.is_trusted(file)
    assert store.entries() == (Accepted("file", str(file), (str(file),), "accepted"),)
    assert store.revoke(file)
    assert not store.is_trusted(file)
    assert not store.revoke(file)


def test_the_bytes_that_will_be_used_are_the_ones_that_are_judged(store, file):
    store.trust_file(file)

    assert store.is_trusted(file, file.read_bytes())
    assert not store.is_trusted(file, b'model = "evil/b"\n')


def test_a_copy_elsewhere_is_not_trusted_and_a_way_through_a_link_is(store, file, tmp_path):
    store.trust_file(file)
    copy, link = tmp_path / "pluggent.toml", tmp_path / "link"
    copy.write_bytes(file.read_bytes())
    link.symlink_to(file.parent)

    assert not store.is_trusted(copy)
    assert store.is_trusted(link / "pluggent.toml")


def test_trust_covers_the_files_that_are_referred_to(store, file):
    server, servers = file.parent / "server.py", file.parent / "mcp.json"
    server.write_text("print(1)")
    servers.write_text(json.dumps({"mcpServers": {"a": {"command": "python", "args": ["./server.py"]}}}))
    file.write_text('[plugins.mcp]\nservers = "mcp.json"\nnote = "no file"\n')

    assert set(store.trust_file(file)) == {str(file), str(servers), str(server)}
    assert store.is_trusted(file)
    server.write_text("print(2)")
    assert not store.is_trusted(file)


def test_a_file_that_is_referred_to_and_appears_later_is_a_change(store, file):
    file.write_text('[plugins.mcp]\nservers = "mcp.json"\n')
    store.trust_file(file)
    assert store.is_trusted(file)

    (file.parent / "mcp.json").write_text("{}")

    assert not store.is_trusted(file)


@each_of(
    ("entry", "used"),
    [
        ({"args": ["server.py"], "cwd": "tools"}, "tools/server.py"),
        ({"args": ["--config=tools/server.json"]}, "tools/server.json"),
        ({"args": ["-rtools/hook.js", "x"]}, "tools/hook.js"),
        ({"args": ["-m", "lone"]}, "lone.py"),
        ({"args": ["-m", "served.main"]}, "served/main.py"),
        ({"args": ["-m", "served.main"]}, "served/deep/part.py"),
        ({"args": ["served"]}, "served/__main__.py"),
        ({"args": ["run", "--directory", "./served", "start"]}, "served/pyproject.toml"),
        ({"args": ["."]}, "package.json"),
        ({"args": ["."]}, "dist/index.js"),
        ({"args": ["start"], "cwd": "${PROJECT}"}, "package.json"),
        ({"args": ["${PROJECT}/tools/server.py"]}, "tools/server.py"),
        ({"args": ["${OTHER:-tools}/server.py"]}, "tools/server.py"),
        ({"args": ["-c", "cd tools && exec ./server.sh --fast"]}, "tools/server.sh"),
        ({"args": ["-m", "lone"], "env": {"PYTHONPATH": "tools:served"}}, "served/deep/lone.py"),
        ({"args": [], "env": {"NODE_OPTIONS": "--require ./tools/hook.js"}}, "tools/hook.js"),
        ({"args": ["--app-dir", "served", "main:app"]}, "served/main.py"),
    ],
)
def test_trust_covers_what_a_program_is_started_with(store, file, monkeypatch, entry, used):
    monkeypatch.setenv("PROJECT", str(file.parent))
    for name in ("tools", "served/deep", "dist"):
        (file.parent / name).mkdir(parents=True, exist_ok=True)
    (file.parent / "package.json").write_text('{"main": "dist/index.js"}')
    (file.parent / used).write_text('{"main": "dist/index.js"}' if used == "package.json" else "one")
    file.write_text('[plugins.mcp]\nfile = ".mcp.json"\n')
    (file.parent / ".mcp.json").write_text(json.dumps({"mcpServers": {"a": {"command": "run", **entry}}}))
    store.trust_file(file)
    assert store.is_trusted(file)

    (file.parent / used).write_text("two")

    assert not store.is_trusted(file)


def test_notes_in_a_folder_that_a_program_is_given_can_change(store, file):
    (file.parent / "docs").mkdir()
    (file.parent / "docs" / "notes.md").write_text("one")
    (file.parent / "main.txt").write_text("one")
    file.write_text('[servers.a]\ncommand = "serve"\nargs = ["docs", "."]\n')
    store.trust_file(file)

    (file.parent / "docs" / "notes.md").write_text("two")
    (file.parent / "main.txt").write_text("two")

    assert store.is_trusted(file)


def test_a_folder_with_too_many_programs_is_covered_at_its_top_and_growing_to_it_is_a_change(store, file, monkeypatch):
    monkeypatch.setattr("pluggent_cli.trust.coverage.MOST_IN_FOLDERS", 3)
    folder = file.parent / "many"
    folder.mkdir()
    file.write_text('[servers.a]\ncommand = "node"\nargs = ["many"]\n')
    for name in ("a.js", "b.js", "index.js"):
        (folder / name).write_text("one")
    assert set(store.trust_file(file)) == {str(file), *(str(folder / name) for name in ("a.js", "b.js", "index.js"))}

    (folder / "c.js").write_text("one")

    assert not store.is_trusted(file)
    assert set(store.trust_file(file)) == {str(file), f"{folder}/", str(folder / "index.js")}


def test_a_folder_that_refers_to_itself_ends(store, file):
    (file.parent / "web").mkdir()
    (file.parent / "web" / "package.json").write_text('{"scripts": {"start": "node . ../web"}}')
    (file.parent / "web" / "again").symlink_to(file.parent / "web")
    file.write_text('[servers.a]\ncommand = "npx"\nargs = ["web"]\n')

    assert store.trust_file(file)
    assert store.is_trusted(file)


def test_files_that_refer_to_each_other_end(store, file):
    (file.parent / "other.json").write_text('["pluggent.toml", "other.json"]')
    file.write_text('a = "other.json"\n')

    assert len(store.trust_file(file)) == 2
    assert store.is_trusted(file)


def test_a_big_file_that_is_referred_to_is_covered_without_being_read(store, file):
    big = file.parent / "big.bin"
    with big.open("wb") as out:
        out.truncate(20_000_000)
    file.write_text('a = "big.bin"\n')
    store.trust_file(file)
    assert store.is_trusted(file)
    times = big.stat()

    with big.open("r+b") as out:
        out.write(b"x")
    os.utime(big, ns=(times.st_atime_ns, times.st_mtime_ns))

    assert not store.is_trusted(file)


def test_too_many_files_are_refused(store, file):
    names = [str(number) for number in range(101)]
    for name in names:
        (file.parent / name).write_text("")
    file.write_text(f"a = {names}")

    with pytest.raises(ConfigError, match="refers to more than 100 files"):
        store.trust_file(file)
    assert not store.is_trusted(file)


@each_of("content", [b"\xff", b"not toml", b"a = " + b"[" * 100_000, b'a = "\\u0000"\nb = "~no-such-user/x"'])
def test_strange_files_can_be_accepted_as_they_are(store, file, content):
    file.write_bytes(content)
    store.trust_file(file)

    assert store.is_trusted(file)


def test_what_is_no_file_cannot_be_accepted(store, file, tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        store.trust_file(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="cannot be read: it is not a regular file"):
        store.trust_file(tmp_path)
    store.trust_file(file)
    file.unlink()
    os.mkfifo(file)

    assert not store.is_trusted(file)
    assert [entry.state for entry in store.entries()] == ["changed"]


# ---- packages ---------------------------------------------------------------------------


def test_packages_are_accepted_by_version_in_every_process(acme):
    acme.acknowledge("acme", "1.1")
    acme.acknowledge("other", "2.0")
    again = TrustStore(acme.path)

    versions = [("acme", "1.0"), ("acme", "1.1"), ("acme", "1.2"), ("acm", "1.0")]
    assert [again.acknowledged(*version) for version in versions] == [True, True, False, False]
    assert again.entries()[0] == Accepted("plugin", "acme", ("1.0", "1.1"), "accepted")
    assert again.forget("acme")
    assert not acme.acknowledged("acme", "1.0")
    assert acme.acknowledged("other", "2.0")


def test_the_store_and_its_key_are_for_their_owner_alone(store, file):
    before = os.umask(0)
    try:
        store.trust_file(file)
    finally:
        os.umask(before)

    modes = {path.name: path.stat().st_mode & 0o777 for path in store.path.parent.iterdir()}
    assert modes == {"trust.json": 0o600, "trust.json.key": 0o600, "trust.json.lock": 0o600}
    assert store.path.parent.stat().st_mode & 0o777 == 0o700


# ---- attacks and accidents --------------------------------------------------------------


def test_a_record_that_was_changed_by_hand_is_no_trust_and_is_named_until_it_is_accepted_again(acme, file):
    acme.trust_file(file)
    edit(acme, lambda records: records[0]["about"].update({"6.6": ""}))

    assert [acme.acknowledged("acme", version) for version in ("1.0", "6.6")] == [False, False]
    assert acme.is_trusted(file)
    assert [entry.state for entry in acme.entries()] == ["damaged", "accepted"]
    (problem,) = acme.problems()
    assert "the record of plugin 'acme' is damaged or was not written by pluggent" in problem

    acme.acknowledge("acme", "1.1")
    (again,) = [entry for entry in acme.entries() if entry.kind == "plugin"]
    assert again == Accepted("plugin", "acme", ("1.1",), "accepted")


def test_the_seal_of_one_record_does_not_fit_another(acme):
    edit(acme, lambda records: records.append({**records[0], "name": "evil"}))

    assert not acme.acknowledged("evil", "1.0")
    assert acme.acknowledged("acme", "1.0")


def test_a_damaged_record_can_be_removed(acme):
    edit(acme, lambda records: records[0].update(seal="0"))

    assert acme.forget("acme")
    assert acme.problems() == ()


def test_without_its_key_nothing_is_trusted(acme):
    acme.path.with_name("trust.json.key").unlink()

    assert not acme.acknowledged("acme", "1.0")
    assert len(acme.problems()) == 1
    acme.acknowledge("other", "1.0")
    assert not acme.acknowledged("acme", "1.0")
    assert acme.acknowledged("other", "1.0")


@each_of("content", ["", "{", "[]", '{"records": 5}', '{"records": {"a": 1}}', "[" * 100_000])
def test_a_damaged_store_is_no_trust_is_named_and_is_set_aside_by_the_next_writer(acme, content):
    acme.path.write_text(content)

    assert not acme.acknowledged("acme", "1.0")
    assert len(acme.problems()) == 1
    acme.acknowledge("acme", "1.0")
    assert acme.acknowledged("acme", "1.0")


@given(
    st.binary(max_size=60)
    | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(lambda v: json.dumps({"records": v}).encode())
)
def test_no_content_of_a_store_makes_trust_or_trouble(tmp_path_factory, content):
    store = TrustStore(tmp_path_factory.getbasetemp() / "any" / "trust.json")
    store.path.unlink(missing_ok=True)
    store.acknowledge("acme", "1.0")
    store.path.write_bytes(content)

    assert not store.acknowledged("acme", "1.0")
    store.problems()
    store.entries()


@each_of(
    ("name", "mode"),
    [("trust.json", 0o620), ("trust.json", 0o602), ("trust.json.key", 0o620), ("trust.json.key", 0o602),
     ("trust.json.key", 0o644)],
)  # fmt: skip
def test_a_store_or_key_that_is_open_to_others_is_refused(acme, name, mode):
    path = acme.path.with_name(name)
    path.chmod(mode)

    with pytest.raises(ConfigError, match=rf"is open to others \(mode 0{mode:o}\).*chmod 0600 {path}"):
        acme.acknowledged("acme", "1.0")
    path.chmod(0o600)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("name", ["trust.json", "trust.json.key", "."])
def test_what_belongs_to_another_user_is_refused(acme, name):
    os.chown(acme.path.parent / name, 12345, -1)

    with pytest.raises(ConfigError, match="belongs to user 12345, not to you"):
        acme.acknowledged("acme", "1.0")


def test_a_failed_write_leaves_the_old_store_and_no_litter(acme):
    with pytest.raises(TypeError):
        acme.acknowledge("acme", b"not text")

    assert acme.acknowledged("acme", "1.0")
    assert {path.name for path in acme.path.parent.iterdir()} == {"trust.json", "trust.json.key", "trust.json.lock"}
