"""``pluggent ollama pull``: progress until the model is there, and errors that say what to do."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from threading import Thread
from typing import Any

import pytest
from cli_support import Cli
from pluggent_ollama.command import Shown
from pluggent_ollama.pull import Progress

GOOD: tuple[Mapping[str, Any], ...] = (
    {"status": "pulling manifest"},
    *({"status": "pulling aaa", "total": 4_100_000_000, "completed": n * 41_000_000} for n in range(101)),
    {"status": "verifying sha256 digest\x1b[2J"},
    {"status": "success"},
)


@contextmanager
def ollama(*said: Mapping[str, Any], status: int = 200) -> Generator[tuple[str, list[Any]]]:
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append((self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"".join(json.dumps(each).encode() + b"\n" for each in said))

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()


def pull(cli: Cli, url: str, *arguments: str) -> Any:
    return cli("ollama", "pull", *arguments, OLLAMA_HOST=url, PLUGGENT_BLOCK="")


def test_a_model_is_pulled_with_its_progress_in_steps(cli: Cli) -> None:
    with ollama(*GOOD) as (url, asked):
        code, out, err = pull(cli, url, "qwen3:8b")

    assert (code, out) == (0, "ollama/qwen3:8b is there\n")
    assert asked == [("/api/pull", {"model": "qwen3:8b", "stream": True})]
    assert err.splitlines() == [
        "pulling manifest",
        *(f"pulling aaa {share} % of 4.1 GB" for share in range(0, 101, 10)),
        "verifying sha256 digest\N{REPLACEMENT CHARACTER}[2J",
        "success",
    ]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (({"status": "pulling manifest"}, {"error": "pull model manifest: file does not exist"}), "does not exist"),
        (({"status": "pulling manifest"},), "broke off before gone:1 was there; pulling again continues"),
        (({"status": "x" * 2_000_000},), "sent a line of more than 1,048,576 bytes"),
    ],
)
def test_a_pull_that_fails_says_why(cli: Cli, said: tuple[Mapping[str, Any], ...], told: str) -> None:
    with ollama(*said) as (url, _):
        code, out, err = pull(cli, url, "gone:1")

    assert (code, out) == (1, "")
    assert told in err
    assert "Traceback" not in err


def test_a_server_that_is_stopped_is_named(cli: Cli) -> None:
    code, _, err = pull(cli, "http://127.0.0.1:9", "qwen3:8b")

    assert code == 1
    assert "http://127.0.0.1:9 cannot be reached" in err
    assert "To start it: ollama serve" in err


def test_another_server_of_the_settings_is_asked(cli: Cli) -> None:
    with ollama(*GOOD) as (url, asked):
        own = cli.work / "own.toml"
        own.write_text(f'[plugins.pluggent-ollama.servers.gpu]\nbase_url = "{url}"\n')
        done = cli("--config", str(own), "ollama", "pull", "--server", "gpu", "qwen3:8b", PLUGGENT_BLOCK="")
        wrong = cli("--config", str(own), "ollama", "pull", "--server", "cpu", "qwen3:8b", PLUGGENT_BLOCK="")

    assert (done.code, done.out) == (0, "gpu/qwen3:8b is there\n")
    assert len(asked) == 1
    assert wrong.code == 2
    assert "there is no server 'cpu'; there are: ollama, gpu" in wrong.err


def test_at_a_terminal_progress_is_one_line_that_changes() -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    shown = Shown(out := Terminal())
    for progress in (Progress("a", 1, 200), Progress("a", 1, 200), Progress("a", 3, 200), Progress("b")):
        shown.show(progress)
    shown.end()

    assert out.getvalue() == "\ra 0 % of 200 B\ra 1 % of 200 B\rb             \n"
