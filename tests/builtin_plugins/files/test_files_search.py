"""What search_files finds and shows, the same with ripgrep and without."""

import os
import shutil
import stat
from pathlib import Path

import pytest
from file_hands import Hands
from hypothesis import given, strategies as st
from pluggent_files.search.patterns import pattern
from pluggent_hookspecs import ToolError

RG = shutil.which("rg")
each_engine = pytest.mark.parametrize(
    "engine",
    ["never", pytest.param("auto", marks=pytest.mark.skipif(RG is None, reason="ripgrep is not installed"))],
)
FILES = {
    "a.py": b"import os\n\ndef word():\n    return 'word'\n",
    "src/b.py": b"WORD = 1\r\nword = 2\r\nend word\r\n",
    "src/c.txt": "caf\u00e9 word\nno end word".encode(),
    "src/deep/utf16.txt": "one\nword in utf-16\n".encode("utf-16"),
    "src/deep/mark.txt": b"\xef\xbb\xbfword at the start\n",
    "bin.dat": b"word\0word\n",
    "latin.txt": b"caf\xe9 word\n",
    "ignored.log": b"word\n",
    ".hidden/x.txt": b"word\n",
    "empty": b"",
    ".gitignore": b"*.log\n",
    "z/.gitignore": b"*\n!kept.txt\n",
    "z/kept.txt": b"word\n",
    "z/left.txt": b"word\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


@each_engine
def test_lines_are_grouped_by_file_in_the_order_of_names(folder, engine):
    assert Hands(folder, ripgrep=engine)("search_files", pattern="word") == (
        ".hidden/x.txt\n1: word\n\n"
        "a.py\n3: def word():\n4:     return 'word'\n\n"
        "latin.txt\n1: caf\ufffd word\n\n"
        "src/b.py\n2: word = 2\n3: end word\n\n"
        "src/c.txt\n1: caf\u00e9 word\n2: no end word\n\n"
        "src/deep/mark.txt\n1: word at the start\n\n"
        "src/deep/utf16.txt\n2: word in utf-16\n\n"
        "z/kept.txt\n1: word"
    )


@each_engine
@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        ({"pattern": "word$"}, [".hidden/x.txt", "latin.txt", "src/b.py", "src/c.txt", "z/kept.txt"]),
        ({"pattern": "^word"}, [".hidden/x.txt", "src/b.py", "src/deep/mark.txt", "src/deep/utf16.txt", "z/kept.txt"]),
        ({"pattern": "WORD", "ignore_case": True, "path": "src"}, ["src/b.py", "src/c.txt", "src/deep/mark.txt",
                                                                   "src/deep/utf16.txt"]),
        ({"pattern": r"\bword\b", "glob": "*.py"}, ["a.py", "src/b.py"]),
        ({"pattern": "word", "glob": "src/**/*.txt"}, ["src/c.txt", "src/deep/mark.txt", "src/deep/utf16.txt"]),
        ({"pattern": "word()", "literal": True}, ["a.py"]),
        ({"pattern": r"d.f\s+\w+\(\)"}, ["a.py"]),
        ({"pattern": "caf. w"}, ["src/c.txt"]),
        ({"pattern": "caf\u00e9"}, ["src/c.txt"]),
        ({"pattern": r"[\w']+'$"}, ["a.py"]),
        ({"pattern": "word", "path": "z"}, ["z/kept.txt"]),
        ({"pattern": "word", "path": "src/b.py"}, ["src/b.py"]),
        ({"pattern": "word", "include_ignored": True, "glob": "*.log"}, ["ignored.log"]),
        ({"pattern": r"(?i)Word\sIN|e(?:x|n)d"}, ["src/b.py", "src/c.txt", "src/deep/utf16.txt"]),
        ({"pattern": "{|[[]|[&&]"}, []),
        ({"pattern": " \\d{1,2}$"}, ["src/b.py"]),
    ],
)  # fmt: skip
def test_patterns_find_the_same_files(folder, engine, arguments, files):
    found = Hands(folder, ripgrep=engine)("search_files", files_only=True, **arguments)

    assert [line for line in found.split("\n") if not line.startswith("[")] == files


@each_engine
def test_context_is_shown_once_with_what_matches_marked(tmp_path, engine):
    (tmp_path / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 21)))

    assert Hands(tmp_path, ripgrep=engine)("search_files", pattern="line ([57]|15)$", context_lines=1) == (
        "a.txt\n4- line 4\n5: line 5\n6- line 6\n7: line 7\n8- line 8\n--\n14- line 14\n15: line 15\n16- line 16"
    )


@each_engine
def test_pages_together_are_all_matches(tmp_path, engine):
    hands = Hands(tmp_path, ripgrep=engine, matches=7)
    for name in "abc":
        (tmp_path / name).write_text("".join(f"word {name} {number}\n" for number in range(10)))
    found: list[str] = []
    skip = 0

    while True:
        text = hands("search_files", pattern="word", skip=skip)
        found += [line.partition(": ")[2] for line in text.split("\n") if ": word" in line]
        if "skip=" not in text:
            break
        skip = int(text.partition("skip=")[2].partition(",")[0])

    assert found == [f"word {name} {number}" for name in "abc" for number in range(10)]


@each_engine
def test_without_a_match_it_says_where_it_did_not_look(folder, engine):
    assert Hands(folder, ripgrep=engine)("search_files", pattern="nowhere") == (
        "[no match for 'nowhere'; what .gitignore leaves out was not searched: include_ignored=true does]"
        if engine == "auto" and RG
        else "[no match for 'nowhere'; 1 binary file not searched; what .gitignore leaves out was not searched:"
        " include_ignored=true does]"
    )


@each_engine
def test_of_a_long_line_the_part_around_the_match_is_shown(tmp_path, engine):
    (tmp_path / "a.js").write_text("x" * 5_000 + "word" + "y" * 5_000)

    said = Hands(tmp_path, ripgrep=engine)("search_files", pattern="word")

    assert said == f"a.js\n1: [4,920 bytes] …{'x' * 80}word{'y' * 216}… [4,784 bytes]"


@each_engine
def test_lines_that_cross_a_piece_are_found_once_with_their_numbers(tmp_path, engine):
    lines = [f"line {number} " + "x" * (number % 97) for number in range(60_000)]
    lines[30_000] += " word"
    lines[59_999] += " word"
    (tmp_path / "a.txt").write_text("\n".join(lines))

    said = Hands(tmp_path, ripgrep=engine)("search_files", pattern="word")

    assert [line.partition(":")[0] for line in said.split("\n")[1:]] == ["30001", "60000"]


@each_engine
@pytest.mark.parametrize(
    "text", ["(", "a**", "[a", r"(?=a)", r"\1", "a\nb", r"a\nb", "", "x" * 1_001, r"\Aa", "a{9999}"]
)
def test_what_is_no_pattern_is_an_error_that_says_why(folder, engine, text):
    with pytest.raises(ToolError, match=r"regular expression|line by line|a pattern has"):
        Hands(folder, ripgrep=engine)("search_files", pattern=text)


@each_engine
@pytest.mark.parametrize("text", ["(a+)+$", "(a|a)*b", "(.*)*x$", "a?" * 50 + "a" * 50, "(a*)*(a*)*(a*)*b"])
def test_a_hostile_pattern_takes_linear_time(tmp_path, engine, text):
    (tmp_path / "a.txt").write_text("a" * 200_000 + "!\n")

    said = Hands(tmp_path, ripgrep=engine)("search_files", pattern=text)

    assert said.startswith("a.txt\n" if text.startswith("a?") else "[no match for ")


@each_engine
def test_special_files_are_not_opened(tmp_path, engine):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "a.txt").write_text("word\n")

    assert Hands(tmp_path, ripgrep=engine)("search_files", pattern="word") == "a.txt\n1: word"


@each_engine
def test_a_name_cannot_be_taken_for_a_result(tmp_path, engine):
    (tmp_path / "a\nb: [end]").write_text("word\n")

    assert Hands(tmp_path, ripgrep=engine)("search_files", pattern="word") == "'a\\nb: [end]'\n1: word"


@each_engine
def test_a_cancelled_search_ends_with_what_it_has(folder, engine):
    hands = Hands(folder, ripgrep=engine)
    hands.context.cancelled = True

    assert "the time was over before every file was searched" in hands("search_files", pattern="word")


@pytest.mark.parametrize("where", ["workspace", "relative", "broken", "failing"])
def test_a_foreign_rg_is_not_trusted(folder, monkeypatch, tmp_path_factory, where):
    place = folder if where in ("workspace", "relative") else tmp_path_factory.mktemp("bin")
    marker = tmp_path_factory.mktemp("marker") / "ran"
    script = {"failing": "#!/bin/sh\nexit 2\n", "broken": "#!/nowhere\n"}.get(where, f"#!/bin/sh\ntouch {marker}\n")
    (place / "rg").write_text(script)
    (place / "rg").chmod(0o755)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", "." if where == "relative" else str(place))

    assert "src/b.py" in Hands(folder)("search_files", pattern="word", files_only=True)
    assert not marker.exists()


def test_what_rg_says_is_looked_at_again(folder, monkeypatch, tmp_path_factory):
    place = tmp_path_factory.mktemp("bin")
    names = r"./a.py\0./../outside.txt\0/etc/passwd\0./ignored.log\0./bin.dat\0./none\0./src\0.git/config\0"
    (place / "rg").write_text(f"#!/bin/sh\nprintf '{names}'\n")
    (place / "rg").chmod(0o755)
    (folder.parent / "outside.txt").write_text("word\n")
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")

    shown = Hands(folder)("search_files", pattern="word|root", files_only=True).split("\n")

    assert [line for line in shown if not line.startswith("[")] == ["a.py"]


def test_rg_is_ended_with_the_search(tmp_path, monkeypatch, tmp_path_factory):
    place = tmp_path_factory.mktemp("bin")
    (place / "rg").write_text("#!/bin/sh\nwhile :; do printf './a.txt\\0'; done\n")
    (place / "rg").chmod(0o755)
    (tmp_path / "a.txt").write_text("word\n")
    monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")

    assert "there are more" in Hands(tmp_path, matches=3)("search_files", pattern="word")
    # A child that is left behind fails every test.


@pytest.mark.skipif(RG is None, reason="ripgrep is not installed")
def test_rg_gets_no_settings_of_the_user(folder, monkeypatch, tmp_path_factory):
    config = tmp_path_factory.mktemp("config") / "rc"
    config.write_text("--invert-match\n--glob=!*.py\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    (folder / ".ignore").write_text("a.py\n")

    assert "a.py" in Hands(folder)("search_files", pattern="word", files_only=True).split("\n")


@pytest.mark.skipif(os.getuid() == 0, reason="root may read all")
@each_engine
def test_what_may_not_be_read_is_counted(folder, engine):
    (folder / "a.py").chmod(0)

    assert "1 file could not be read" in Hands(folder, ripgrep=engine)("search_files", pattern="word")
    (folder / "a.py").chmod(stat.S_IRUSR)


# Patterns

PIECES = st.sampled_from([
    "a", "b", "_", "-", " ", "1", "\u00e9", ".", "^", "$", "|", "*", "+", "?", "(", ")", "(?:", "(?i)", "[", "]", "[^",
    "{", "}", "{2}", "{1,}", "\\", "\\d", "\\w", "\\W", "\\s", "\\b", "\\B", "\\.", "\\<", "\\-", "&&", "~", "#",
    "[[:alpha:]]", "[a-b]", "[]a]", "\\x61", "\\Qa.\\E", "\\pL",
])  # fmt: skip
TEXTS = st.text(alphabet="ab_-. 1\u00e9(){}[]\\&~#^$<\t", max_size=12)


@pytest.mark.skipif(RG is None, reason="ripgrep is not installed")
@given(st.lists(PIECES, min_size=1, max_size=6).map("".join), st.lists(TEXTS, min_size=1, max_size=4))
def test_a_pattern_means_the_same_to_ripgrep(tmp_path_factory, text, lines):
    try:
        made = pattern(text)
    except ToolError:
        return
    if made.for_ripgrep is None:
        return
    folder = tmp_path_factory.mktemp("folder")
    for number, line in enumerate(lines):
        (folder / f"{number}.txt").write_text(f"{line}\r\n" if number % 2 else f"{line}\n")

    found = [Hands(folder, ripgrep=engine)("search_files", pattern=text) for engine in ("auto", "never")]

    assert found[0] == found[1]


@given(st.text(min_size=1, max_size=20).filter(lambda text: "\n" not in text and "\r" not in text))
def test_a_literal_finds_itself(text):
    made = pattern(text, is_literal=True)
    data = text.encode("utf-8", "surrogatepass")

    assert made.literal == text.encode("utf-8", "surrogateescape") or not text.isprintable()
    assert made.expression.search(b"before " + data) is not None


def test_most_patterns_can_be_said_to_ripgrep():
    texts = ["word", r"def \w+\(", r"^\s*class [A-Z]\w*[:(]", "a|b", r"(?P<name>\d+)", "x{2,3}$", "[^a-z_]", r"TODO\b"]

    assert [text for text in texts if pattern(text).for_ripgrep is None] == []
