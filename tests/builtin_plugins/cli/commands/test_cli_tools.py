"""``pluggent tools`` and ``pluggent hooks``: looking at tools and chains, and calling a tool by hand."""

import pytest
from each_of import each_of
from workspace import ROOT

DEMO = str(ROOT / "sample_plugins" / "guard" / "demo.toml")
ATLANTIS = (
    '→ weather(city="Atlantis", unit="celsius")  DENIED by pluggent-guard: the guard denies the weather in Atlantis\n'
)
TOOLS = """
from pluggent_hookspecs import ToolOutput, hookimpl, tool

@tool
def undeclared(a: int = 1) -> int:
    '''Do something.'''
    return a

@tool(effects=())
def fails() -> str:
    '''Fail.'''
    raise ValueError("on purpose")

@tool(effects=())
def structured(word: str, times: int = 1) -> ToolOutput:
    '''Return data.'''
    return ToolOutput(data={"words": [word] * times})

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [undeclared, fails, structured]
"""


@pytest.fixture
def cli(cli):
    cli.plugin("acme-tools", TOOLS)
    return cli


# ---- looking ----------------------------------------------------------------------------


def test_the_list_says_what_each_tool_does_and_whether_it_runs_unasked(cli):
    code, out, err = cli("tools")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if not line.startswith(" ")}

    assert (code, err) == (0, "")
    assert rows["weather"] == ["pluggent-weather", "none", "run"]
    assert rows["undeclared"] == ["acme-tools", "not", "declared", "need", "approval"]
    assert "    Tell the weather in a city now.\n" in out


def test_the_schema_is_what_a_model_is_told(cli):
    document = cli.document("tools", "schema", "structured")

    assert document["name"] == "structured"
    assert document["parameters"]["required"] == ["word"]
    assert (document["capability"], document["effects"]) == ("acme-tools:tool/structured", [])


def test_a_broken_tool_plugin_is_named_and_the_others_are_listed(cli):
    cli.plugin("acme-broken", "import gone")

    done = cli("tools")

    assert (done.code, "weather" in done.out) == (0, True)
    assert "plugin 'acme-broken' (acme-broken 1.0) could not be imported" in done.err
    assert list(cli.document("tools")["broken"]) == ["acme-broken:tools/broken"]


@pytest.mark.parametrize("word", ["tools", "hooks"])
def test_a_broken_plugin_with_hooks_is_named_and_the_rest_is_listed(cli, word):
    cli.plugin("acme-policy", "import gone", "hooks")
    before = cli(word)
    cli("trust", "--plugin", "acme-policy==1.0")

    after = cli(word)

    assert (before.code, after.code) == (0, 0)
    assert before.out == after.out != ""
    assert "'acme-policy' has hooks and was not accepted yet: pluggent trust --plugin acme-policy" in before.err
    assert "plugin 'acme-policy' (acme-policy 1.0) could not be imported" in after.err
    assert cli("tools", "call", "weather", "city=Oslo").code == 5


def test_a_policy_that_cannot_be_opened_is_named_and_the_rest_is_listed(cli):
    (cli.work / "mine.toml").write_text('[[plugins.pluggent-guard.rules]]\naction = "deny"\ntool = "wether"\n')

    for word in ("tools", "hooks"):
        code, out, err = cli(word, "--config", "mine.toml")

        assert (code, out != "") == (0, True)
        assert "did you mean 'weather'?" in err
        assert "pluggent-guard" in err
    assert cli("tools", "call", "weather", "city=Oslo", "--config", "mine.toml").code == 2


# ---- calls ------------------------------------------------------------------------------


@each_of(
    ("arguments", "words"),
    [
        (["word=a", "times=2"], '["a", "a"]'), (["word=a", "times:=2"], '["a", "a"]'),
        (['word:="a"', "times=2"], '["a", "a"]'), (['{"word": "a", "times": 2}'], '["a", "a"]'),
        (["word=10115"], '["10115"]'),
    ],
)  # fmt: skip
def test_arguments_are_words_or_one_object(cli, arguments, words):
    assert cli("tools", "call", "structured", *arguments).out == f'{{"words": {words}}}\n'


@each_of(
    ("arguments", "says"),
    [
        (["call", "forecast", "city"], "'city' is no KEY=VALUE and no JSON object"),
        (["call", "forecast", "city=a", "city=b"], "'city' is given twice"),
        (["call", "forecast", "days:=two"], "'two' is no JSON"),
        (["call", "forecast", "city=Oslo", "dys=2"], "dys"),
        (["call", "forecast", "days=99", "city=Oslo"], "$.days: 99 is greater than the maximum of 7"),
        (["call", "forecast", '{"city": '], "invalid arguments for 'forecast'"),
        (["call"], "needs a NAME"), (["schema"], "needs a NAME"),
        (["call", "wether"], "did you mean 'weather'?"), (["schema", "wether"], "did you mean 'weather'?"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_suit_are_wrong_usage(cli, arguments, says):
    code, out, err = cli("tools", *arguments)

    assert (code, out, says in err) == (2, "", True), err


@each_of(
    ("arguments", "code", "says"),
    [
        (["weather", "city=Atlantis", "--config", DEMO], 3, ATLANTIS),
        (["undeclared", "a=1"], 3, "→ undeclared(a=1)  needs approval (host: its effects are not declared)\n"),
        (["undeclared", "a=1"], 3, "run it in the foreground of a terminal"),
        (["fails"], 1, "Error: 'fails' failed: ValueError: on purpose\n"),
    ],
)
def test_a_call_passes_the_policies_and_may_fail(cli, arguments, code, says):
    done = cli("tools", "call", *arguments)

    assert (done.code, done.out, says in done.err) == (code, "", True), done


def test_the_document_of_a_call(cli):
    document = cli.document("tools", "call", "structured", "word=a")

    assert (document["data"], document["arguments"]) == ({"words": ["a"]}, {"word": "a", "times": 1})
    assert (document["verdict"], document["kind"], document["exit_code"]) == ("allow", "", 0)


# ---- chains -----------------------------------------------------------------------------


def test_chains_are_shown_in_their_order_with_the_reason_and_a_digest(cli):
    late = """
from pluggent_hookspecs import hookimpl

class Plugin:
    @hookimpl(after=["pluggent-guard"])
    def decide_tool_call(self, event):
        return None
"""
    cli.plugin("acme-after", late, "hooks")
    alone = cli.document("hooks")
    cli("trust", "--plugin", "acme-after==1.0")

    code, out, err = cli("hooks", "decide_tool_call")
    both = cli.document("hooks")

    assert (code, err) == (0, "")
    assert out.splitlines()[:4] == [
        "decide_tool_call  decide",
        "  1. pluggent-guard  band normal, by plugin id",
        "  2. acme-after  band normal, after pluggent-guard, by plugin id",
        f"digest {both['digest']}",
    ]
    assert alone["digest"] != both["digest"]
    assert (alone["missing"], both["missing"]) == (["acme-after"], [])


def test_a_hook_without_implementation_is_said_to_be_so(cli):
    assert cli("hooks", "decide_output").out.startswith("no plugin implements decide_output\n")
