"""``pluggent batch``: a file of requests is submitted once, read and cancelled; and replies in the background."""

import json

import pytest
from pluggent_cli.batches.kept import Kept, KeptBatches
from pluggent_hookspecs import ConfigError, Message, ModelRequest
from pluggent_host.operations.batch import Batch, BatchItem
from pluggent_testing.later.batch_servers import SECRET, OpenAIBatchServer
from pluggent_testing.later.responses_server import ResponsesServer

LINES = """{"id": "one", "prompt": "say one"}

"say two"
{"id": "bad", "messages": [{"role": "user", "content": "fail"}]}
"""
MODEL = ("-m", "openai/m")
LATER = ("-o", "background=true", "--no-tools", "--without", "pluggent-retry")
OWN = ("--config", "own.toml")


def settings(cli, server):
    text = (
        f'[plugins.pluggent-openai]\nbase_url = "{server.url()}"\napi = "responses"\ncompat = {{ like = "openai" }}\n'
    )
    (cli.work / "own.toml").write_text(text)
    (cli.work / "asks.jsonl").write_text(LINES)
    return {"OPENAI_API_KEY": SECRET}


def test_a_file_is_submitted_once_and_its_results_are_lines(cli):
    with OpenAIBatchServer() as server:
        env = settings(cli, server)
        code, out, err = cli(*OWN, "batch", "submit", "asks.jsonl", *MODEL, **env)
        assert code == 0, err
        name = out.strip()
        assert "3 requests are with" in err

        again = cli(*OWN, "batch", "submit", "asks.jsonl", *MODEL, **env)
        assert again.code == 2
        assert f"was submitted before, as {name}" in again.err
        assert len(server.account.batches) == 1

        assert cli(*OWN, "batch", "status", name[:4], **env).code == 6
        assert name in cli(*OWN, "batch", **env).out
        server.end()
        code, out, _ = cli(*OWN, "batch", "status", "--json", **env)
        assert (code, json.loads(out)["state"]["status"]) == (0, "completed")
        code, out, err = cli(*OWN, "batch", "results", **env)
        results = {one["id"]: one for one in map(json.loads, out.splitlines())}
        assert (code, err) == (0, "")
        assert {id: (one["outcome"], one.get("text")) for id, one in results.items()} == {
            "one": ("done", "one"),
            "line-3": ("done", "two"),
            "bad": ("failed", None),
        }
        assert results["one"]["usage"] == {"input": 10, "output": 5}
        assert SECRET not in "".join(path.read_text() for path in (cli.state / "batches").glob("*.json"))


def test_a_batch_is_cancelled_and_what_is_wrong_in_a_file_is_told_by_its_lines(cli):
    with OpenAIBatchServer() as server:
        env = settings(cli, server)
        (cli.work / "wrong.jsonl").write_text(
            '{"id": "a"}\n7\n{"prompt": "x", "tone": 1}\n{"id":"b","prompt":"x"}\nnone'
        )
        code, _, err = cli(*OWN, "batch", "submit", "wrong.jsonl", *MODEL, **env)
        assert code == 2
        for problem in (
            "line 1: give prompt or messages",
            "line 2: expected a text",
            "line 3: 'tone' is unknown",
            "line 5: ",
        ):
            assert problem in err
        assert server.account.files == {}

        assert cli(*OWN, "batch", "submit", "asks.jsonl", *MODEL, **env).code == 0
        (name,) = [one["name"] for one in json.loads(cli(*OWN, "batch", "list", "--json", **env).out)["batches"]]
        assert cli(*OWN, "batch", "cancel", name, **env).code == 0
        assert server.cancelled == 1
        assert '"cancelled"' in cli(*OWN, "batch", "results", **env).out


@pytest.mark.parametrize("way", ["resume", "run"])
def test_a_turn_whose_connection_is_lost_is_continued_by_another_process(cli, way):
    with ResponsesServer() as server:
        env = settings(cli, server)
        server.accounts["a"].cuts = [2, *[0] * 60]
        code, out, err = cli(*OWN, "run", *MODEL, *LATER, "go", **env)
        assert code == 6, err
        assert "resp_1" in err
        assert "pluggent resume" in err

        server.accounts["a"].cuts = []
        if way == "run":
            code, out, err = cli(*OWN, "run", "-c", *MODEL, *LATER, "and now?", **env)
            assert code == 0, err
            assert out.count("it is done") == 2
        else:
            session = err.split("pluggent resume ")[1].split()[0]
            code, out, err = cli(*OWN, "resume", session, **env)
            assert (code, out.strip()) == (0, "it is done"), err
            assert len(server.accounts["a"].bodies) == 1


def test_an_approval_in_a_file_of_a_batch_that_was_changed_does_not_count(tmp_path, caplog):
    request = ModelRequest("m", (Message.user("hi"),))
    item = BatchItem("one", request, "d1", asks=(("guard", "really?"),), approved_by="me")
    batch = Batch("k1", "later/m", "ann", 1.0, (item, BatchItem("two", request, "d2", denied=("guard", "no"))))
    kept = KeptBatches(tmp_path)
    kept.write(Kept(batch, "q.jsonl", "d"))
    assert kept.named("k").batch == batch

    file = tmp_path / "batches" / "k1.json"
    file.write_bytes(file.read_bytes().replace(b'"d2"', b'"d3"'))

    changed = kept.named("k").batch
    assert [(each.asks, each.approved_by) for each in changed.items] == [((), ""), ((), "")]
    assert changed.principal == ""
    assert "was changed, or copied from elsewhere" in caplog.text

    file.rename(tmp_path / "batches" / "k2.json")
    with pytest.raises(ConfigError, match="it names another batch"):
        kept.named("k2")
