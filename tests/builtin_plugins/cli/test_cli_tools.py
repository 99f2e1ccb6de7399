import json
from pathlib import Path

import pytest
from cli_support import Cli
from fake_distributions import install
from workspace import ROOT

DEMO = str(ROOT / "sample_plugins" / "guard" / "demo.toml")
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
def cli(tmp_path: Path) -> Cli:
    made = Cli(tmp_path)
    install(made.site, "acme-tools", {"tools/acme": "acme_tools:Plugin"}, modules={"acme_tools": TOOLS})
    return made


# ---- looking ----------------------------------------------------------------------------


def test_the_list_says_what_each_tool_does_and_whether_it_runs_unasked(cli):
    code, out, err = cli("tools")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines() if not line.startswith(" ")}

    assert (code, err) == (0, "")
    assert rows["weather"] == ["pluggent-weather", "none", "run"]
    assert rows["undeclared"] == ["acme-tools", "not", "declared", "need", "approval"]
    assert "    Tell the weather in a city now.\n" in out


def test_the_schema_is_what_a_model_is_told(cli):
    document = json.loads(cli("tools", "schema", "structured").out)

    assert document["name"] == "structured"
    assert document["parameters"]["required"] == ["word"]
    assert (document["capability"], document["effects"]) == ("acme-tools:tool/structured", [])


def test_a_broken_tool_plugin_is_named_and_the_others_are_listed(cli):
    install(cli.site, "acme-broken", {"tools/broken": "acme_broken:Plugin"}, modules={"acme_broken": "import gone"})

    code, out, err = cli("tools")
    document = json.loads(cli("tools", "--json").out)

    assert code == 0
    assert "weather" in out
    assert "plugin 'acme-broken' (acme-broken 1.0) could not be imported" in err
    assert list(document["broken"]) == ["acme-broken:tools/broken"]


@pytest.mark.parametrize("words", [["tools"], ["hooks"]])
def test_a_broken_plugin_with_hooks_is_named_and_nothing_dies_of_it(cli, words):
    install(cli.site, "acme-policy", {"hooks/policy": "acme_policy:Plugin"}, modules={"acme_policy": "import gone"})
    before = cli(*words)
    cli("trust", "--plugin", "acme-policy")

    after = cli(*words)

    assert (before.code, after.code) == (0, 0)
    assert before.out == after.out != ""
    assert "'acme-policy' has hooks and was not accepted yet: pluggent trust --plugin acme-policy" in before.err
    assert "plugin 'acme-policy' (acme-policy 1.0) could not be imported" in after.err
    assert cli("tools", "call", "weather", "city=Oslo").code == 5


@pytest.mark.parametrize("words", [["tools"], ["hooks"]])
def test_a_policy_that_cannot_be_opened_is_named_and_nothing_dies_of_it(cli, words):
    (cli.work / "mine.toml").write_text('[[plugins.pluggent-guard.rules]]\naction = "deny"\ntool = "wether"\n')

    code, out, err = cli(*words, "--config", "mine.toml")

    assert code == 0
    assert out
    assert "did you mean 'weather'?" in err
    assert "pluggent-guard" in err
    assert cli("tools", "call", "weather", "city=Oslo", "--config", "mine.toml").code == 2


# ---- calling ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments",
    [
        ["word=a", "times=2"],
        ["word=a", "times:=2"],
        ['word:="a"', "times=2"],
        ['{"word": "a", "times": 2}'],
    ],
)
def test_arguments_are_words_or_one_object(cli, arguments):
    assert cli("tools", "call", "structured", *arguments).out == '{"words": ["a", "a"]}\n'


def test_text_stays_text_where_the_tool_wants_text(cli):
    assert cli("tools", "call", "structured", "word=10115").out == '{"words": ["10115"]}\n'


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["city"], "'city' is no KEY=VALUE and no JSON object"),
        (["city=a", "city=b"], "'city' is given twice"),
        (["days:=two"], "'two' is no JSON"),
        (["city=Oslo", "dys=2"], "dys"),
        (["days=99", "city=Oslo"], "$.days: 99 is greater than the maximum of 7"),
        (['{"city": '], "invalid arguments for 'forecast'"),
    ],
)
def test_arguments_that_do_not_suit_are_wrong_usage(cli, arguments, says):
    code, out, err = cli("tools", "call", "forecast", *arguments)

    assert (code, out) == (2, "")
    assert says in err


@pytest.mark.parametrize("words", [["call"], ["schema"], ["call", "wether"], ["schema", "wether"]])
def test_a_tool_has_to_be_named_and_known(cli, words):
    code, _, err = cli("tools", *words)

    assert code == 2
    assert ("did you mean 'weather'?" if "wether" in words else "needs a NAME") in err


def test_a_call_passes_the_policies(cli):
    code, out, err = cli("tools", "call", "weather", "city=Atlantis", "--config", DEMO)

    assert (code, out) == (3, "")
    assert err == (
        '→ weather(city="Atlantis", unit="celsius")  '
        "DENIED by pluggent-guard: the guard denies the weather in Atlantis\n"
    )


def test_a_call_that_nobody_can_approve_is_denied_with_what_to_do(cli):
    code, out, err = cli("tools", "call", "undeclared", "a=1")

    assert (code, out) == (3, "")
    assert "→ undeclared(a=1)  needs approval (host: its effects are not declared)\n" in err
    assert "run it in the foreground of a terminal" in err


def test_a_tool_that_fails_is_a_failure(cli):
    code, out, err = cli("tools", "call", "fails")

    assert (code, out) == (1, "")
    assert "Error: 'fails' failed: ValueError: on purpose\n" in err


def test_the_document_of_a_call(cli):
    document = json.loads(cli("tools", "call", "structured", "word=a", "--json").out)

    assert document["data"] == {"words": ["a"]}
    assert document["arguments"] == {"word": "a", "times": 1}
    assert (document["verdict"], document["kind"], document["exit_code"]) == ("allow", "", 0)


# ---- chains -----------------------------------------------------------------------------


def test_chains_are_shown_in_their_order_with_the_reason_and_a_digest(cli):
    early = """
from pluggent_hookspecs import hookimpl

class Plugin:
    @hookimpl(after=["pluggent-guard"])
    def decide_tool_call(self, event):
        return None
"""
    install(cli.site, "acme-after", {"hooks/after": "acme_after:Plugin"}, modules={"acme_after": early})
    alone = json.loads(cli("hooks", "--json").out)
    cli("trust", "--plugin", "acme-after")

    code, out, err = cli("hooks", "decide_tool_call")
    both = json.loads(cli("hooks", "--json").out)

    assert (code, err) == (0, "")
    assert out.splitlines()[:3] == [
        "decide_tool_call  decide",
        "  1. pluggent-guard  band normal, by plugin id",
        "  2. acme-after  band normal, after pluggent-guard, by plugin id",
    ]
    assert out.splitlines()[3] == f"digest {both['digest']}"
    assert alone["digest"] != both["digest"]
    assert (alone["missing"], both["missing"]) == (["acme-after"], [])


def test_a_hook_that_nobody_implements_is_said_to_be_so(cli):
    assert cli("hooks", "decide_output").out.startswith("no plugin implements decide_output\n")
