"""The official conformance suite of MCP against ``pluggent mcp serve``; .ci/run installs it.

Tools, resources, prompts, logs, questions to a granted client, and all that the protocols themselves ask
of a server, are checked. Completion, subscriptions to single resources and a store of events to go on from
it does not offer; the model it asks is the host's own; and what a question is called in 2026-07-28 a tool
does not say, so scenarios that want a certain name are left out.
"""

import re
import subprocess

import pytest
from mcp_conformance import WAIT_S, made_for_suite, suite_in
from mcp_serving import over_http

TOOLS = {
    "tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource",
    "tools-call-mixed-content", "tools-call-error", "tools-call-with-progress", "json-schema-2020-12",
    "dns-rebinding-protection", "server-sse-multiple-streams",
}  # fmt: skip
READ = {
    "resources-list", "resources-read-text", "resources-read-binary", "resources-templates-read",
    "prompts-list", "prompts-get-simple", "prompts-get-with-args", "prompts-get-embedded-resource",
    "prompts-get-with-image",
}  # fmt: skip
HEADERS = {"http-header-validation", "http-custom-header-server-validation"}
LOGS = {"logging-set-level", "tools-call-with-logging"}
QUESTIONS = {"tools-call-elicitation", "elicitation-sep1034-defaults", "elicitation-sep1330-enums"}
ROUNDS = {
    f"input-required-result-{name}"
    for name in (
        "request-state", "multi-round", "result-type", "tampered-state", "missing-input-response",
        "unsupported-methods", "ignore-extra-params", "validate-input",
    )
}  # fmt: skip
EXPORTED = ["--resources", "acme", "--prompts", "acme", "--tools", "acme", "trial"]
WANTED = {
    "2025-11-25": {*TOOLS, *READ, *LOGS, *QUESTIONS, "server-initialize", "server-session-lifecycle", "ping"},
    "2026-07-28": {*TOOLS, *READ, *HEADERS, *ROUNDS, "caching", "sep-2164-resource-not-found"},
}


@pytest.fixture
def suite(peers_folder):
    return suite_in(peers_folder)


@pytest.mark.parametrize("version", sorted(WANTED))
def test_the_server_conforms(version, suite, tmp_path, capsys):
    with over_http(made_for_suite(tmp_path), *EXPORTED, "--token", "none", token_is_set=True) as served:
        done = subprocess.run(  # noqa: S603 (found above)
            [*suite, "server", "--url", served.url, "--suite", "all", "--spec-version", version],
            cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip

    scores = dict(re.findall(r"^[✓✗] ([\w-]+): (\d+ passed, \d+ failed)", done.stdout, re.MULTILINE))
    passed = {name for name, score in scores.items() if re.fullmatch(r"[1-9]\d* passed, 0 failed", score)}
    with capsys.disabled():
        told = f"{len(WANTED[version] & passed)} of {len(WANTED[version])} scenarios of what is offered"
        print(f"\nMCP {version}, conformance of the server: {told}")  # noqa: T201 (a score is of use only where it is seen)
    assert WANTED[version] - passed == set(), done.stdout[-4_000:]
