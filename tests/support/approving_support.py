"""Turns that pause, and answering what they wait with: the real command, with a tool that needs approval."""

import json
from pathlib import Path

from cli_support import Cli, Done
from fake_distributions import install, policy

QUESTION = "Approve this? [y/N] "
PAUSED = 6
TOOLS = """
import pathlib
from pluggent_hookspecs import hookimpl, tool

@tool(effects=("messaging",))
def send_mail(to: str) -> str:
    '''Send a mail.'''
    with pathlib.Path("sent.txt").open("a") as file:
        file.write(to + ";")
    return f"sent to {to}"

class Plugin:
    @hookimpl
    def provide_tools(self, event):
        return [send_mail]
"""
ASKING = policy("decide_tool_call", r'Ask("is \x1b[2Jbob a friend?")')


def mailing(folder: Path) -> Cli:
    """Return a command that has the tool send_mail."""
    made = Cli(folder)
    install(made.site, "acme-mail", {"tools/mail": "acme_mail:Plugin"}, modules={"acme_mail": TOOLS})
    return made


def sent(cli: Cli) -> str:
    """Return to whom mails were sent."""
    file = cli.work / "sent.txt"
    return file.read_text() if file.exists() else ""


def requests(cli: Cli, *, whole: bool = False) -> dict[str, str]:
    """Return the request of each call that waits, by session and call."""
    listed = json.loads(cli("approvals", "--json").out)["waiting"]
    return {
        f"{one['session']} {call['call_id']}": call["digest"][: None if whole else 16]
        for one in listed
        for call in one["calls"]
        if call["asks"] and not call["answer"]
    }


def pause(cli: Cli, *mails: str, session: str = "s") -> str:
    """Let a turn pause, and return the request of its first call."""
    done = cli("run", "--session", session, " & ".join(f"send_mail to={mail}" for mail in mails or ("bob",)))
    assert done.code == PAUSED, done
    return next(digest for name, digest in requests(cli).items() if name.startswith(f"{session} "))


def approve(cli: Cli, *words: str, answer: str = "y\n", question: str = QUESTION) -> Done:
    """Approve at a terminal."""
    with cli.at_terminal("approvals", "approve", "--color", "never", *words) as terminal:
        terminal.wait_for(question)
        terminal.type(answer)
        return terminal.end()


def requests_of(cli: Cli, session: str) -> str:
    """Return the whole digest of the one call of a session, answered or not."""
    document = json.loads(cli("approvals", "show", session, "--json").out)
    return str(document["calls"][0]["digest"])
