"""Lines that are split into their commands, and lines that are refused because shells read them differently."""

# Long tables of lines.
# ruff: noqa: E501

import pytest
from hypothesis import given, strategies as st
from pluggent_shell.call_parts import call_parts
from pluggent_shell.shell_commands import command_text, parts_of
from pluggent_shell.shell_line import CannotSplitError, split


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("git status", ("git status",)),
        ("git status; rm -rf /", ("git status", "rm -rf /")),
        ("git status\nrm x", ("git status", "rm x")),
        ("a && b || c | d & e", ("a", "b", "c", "d", "e")),
        ("a&b", ("a", "b")),
        ("a;b;", ("a", "b")),
        ("a |\n\n b", ("a", "b")),
        ("a # ; b", ("a",)),
        ("a#b", ("'a#b'",)),
        ("a \\\n  b", ("a b",)),
        ("(cd x; make) > log 2>&1", ("cd x", "make", "> log")),
        ("a > x >> y < z", ("a", "> x", ">> y", "< z")),
        ("a 2> x 3<> 'y z' >| w", ("a", "2> x", "3<> 'y z'", ">| w")),
        ("> x", ("> x",)),
        ("a > /dev/null 2>&1 <&-", ("a",)),
        ("a '> x'", ("a '> x'",)),
        ("cat << E\nhi\nE", ("cat", "<< 'hi\n'")),
        ("cat <<- 'E' && b\n\t$x\n\tE\nc", ("cat", "<< '$x\n'", "b", "c")),
        ("A=1 B='x y' git status", ("A=1 B='x y' git status",)),
        ("PATH=/evil; git status", ("PATH=/evil", "git status")),
        ("'A=1' git", ("'A=1' git",)),
        ("'if' x", ("'if' x",)),
        ('"git" sta"tus"', ("git status",)),
        ("g\\it status", ("git status",)),
        ("echo 'a'\\''b'", ("echo 'a'\"'\"'b'",)),
        ('echo "a\\$b\\x"', ("echo 'a$b\\x'",)),
        ("echo \"a$\" '$x'", ("echo 'a$' '$x'",)),
        ("git show HEAD~1", ("git show 'HEAD~1'",)),
        ("echo 文件", ("echo '文件'",)),
        ("[ -f x ] && y", ("'[' -f x ']'", "y")),
        ("make make; make", ("make make", "make")),
        ("a; a", ("a",)),
        ("eval 'rm x'", ("eval 'rm x'",)),
    ],
)
def test_a_line_is_split_into_what_has_to_be_covered(line, parts):
    assert parts_of(split(line)) == parts


@pytest.mark.parametrize(
    "line",
    [
        "rm $x", "rm ${x}", 'rm "$x"', "rm *", "rm ?", "rm [ab]", "rm ~/x", "rm ~", "A=~ b", "a --b=~/c", "a $(b)", "a `b`",
        '"$(a)"', "$x", "a > $x", "a > *", "cat <<E\n$x\nE", "cat <<E\n`x`\nE", "A=$b c", "a $1", "a $@", "a; rm $x",
    ],
)  # fmt: skip
def test_what_is_known_only_while_it_runs_is_covered_by_nothing(line):
    assert split(line) != ()
    assert parts_of(split(line)) == ()


@pytest.mark.parametrize(
    "line",
    [
        "", " ", "#", "a && ", "&& a", "a ;; b", "a || | b", "| a", ";", "a & & b", "a;&b", "a |& b", "a &> b", "&>b", "a >& b",
        "a <<< b", "a <(b)", "a >(b)", "diff <(a) <(b)", "if a; then b; fi", "for a in b; do c; done", "while a; do b; done",
        "case a in b) c;; esac", "{ a; }", "{ a", "a {b,c}", "a }", "! a", "a() { b; }", "a () (b)", "function a { b; }",
        "[[ a ]]", "((a))", "(( a ))", "$((1))", "a $((1+1))", "a $[1]", "time a", "coproc a", "select a in b; do c; done",
        "a=(b c)", "a[0]=b", "a+=b", "a $'b'", 'a $"b"', "a ${b:-c}", "a ${!b}", "a ${b@P}", "a ${b", "a 'b", 'a "b', "a \\",
        "a `b", "a $(b", "(a", "a)", "()", "( )", "(a) b", "(a)(b)", "a (b)", "a\\\nb", 'a "b\\\nc"', "a &&\\\nb", "a 10> b",
        "{x}> b", "a <<E", "a <<E\nb", "cat <<E\n\\\nE\nE", "cat << $x\n$x", "cat << a'b'\nab", "a $(cat <<E\nE\n)",
        "a \x00", "a \x1b[0m", "a \x7f", "a \r\n", "a\u00a0b", "a\u2028b", "a “b”", "a \u202e b", "a\vb", "'a\x01'",
        "a > &b", "a > #b", "a >", "a > > b", "`a \\`b\\``", '"`a "b"`"', "x" * 70_000,
        "( " * 100 + "a" + ")" * 100, "echo " + "$(" * 100 + "a" + ")" * 100, "`" * 2,
    ],
    ids=lambda line: ascii(line)[:30],
)  # fmt: skip
def test_what_shells_read_differently_or_not_at_all_is_refused(line):
    with pytest.raises(CannotSplitError):
        split(line)


def test_the_commands_of_substitutions_are_shown_too():
    steps = split('echo "$(ls | wc)" `id`')

    assert [(step.joined, step.text, step.depth) for step in steps] == [
        ("", 'echo "$(ls | wc)" `id`', 0), ("$(", "ls", 1), ("|", "wc", 1), ("`", "id", 1),
    ]  # fmt: skip


@given(st.text(alphabet="ab ;&|<>()$`'\"\\\n#=*~{}[]!-012\tE", max_size=60))
def test_any_text_is_split_or_refused(line):
    try:
        steps = split(line)
    except CannotSplitError:
        return
    assert steps


words = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Zl", "Zp", "Zs", "Co", "Cn")) | st.just(" "),
    max_size=12,
)


@given(st.lists(words, min_size=1, max_size=5).filter(lambda given: given[0] != ""))
def test_a_command_in_the_one_way_of_quoting_is_read_as_its_words(given):
    (step,) = split(command_text(given))

    assert (step.text, step.known) == (command_text(given), True)


@given(st.lists(st.lists(words.filter(bool), min_size=1, max_size=3), min_size=1, max_size=4))
def test_commands_put_together_come_apart_again(commands):
    texts = [command_text(command) for command in commands]

    assert parts_of(split(" && ".join(texts))) == tuple(dict.fromkeys(texts))


# Parts of a call


@pytest.mark.parametrize(
    ("command", "options", "parts"),
    [
        (["git", "status"], {}, ("git status",)),
        (["git", "status; rm x"], {}, ("git 'status; rm x'",)),
        (["rm", "*"], {}, ("rm '*'",)),
        ([], {}, ()),
        ([""], {}, ()),
        ("git status", {"cwd": "/evil place"}, ("cd '/evil place'", "git status")),
        ("git fetch", {"network": True}, ("git fetch", "<network>")),
        ("git $x", {"network": True, "cwd": "x"}, ()),
        ("", {}, ()),
    ],
)
def test_folder_and_network_of_a_call_have_to_be_covered_too(command, options, parts):
    assert call_parts(command, **options) == parts


@pytest.mark.parametrize("command", ["'<network>'", "\\<network\\>", ["<network>"], "'cd' x > '<network>'"])
def test_no_command_looks_like_another_part(command):
    assert "<network>" not in call_parts(command)
