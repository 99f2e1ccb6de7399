"""``pluggent batch``: submits a file of requests as one batch, says how far it is, prints its results, cancels it."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.background import BatchState
from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.models import ModelParameters, ModelRequest

from pluggent_cli import exits, process
from pluggent_cli.host_access import Setup, open_host, prepare
from pluggent_cli.parsing import Parser, action, command_parser, examples, one_name
from pluggent_cli.process import log_to
from pluggent_cli.terminal.console import Console, Row, moment

if TYPE_CHECKING:  # a host costs what --help must not
    from pluggent_host.host import Host
    from pluggent_host.operations.batch import Batch

    # and so does what is kept
    from pluggent_cli.batches.kept import Kept, KeptBatches

ACTIONS = ("submit", "list", "status", "results", "cancel")


def parser() -> Parser:
    """Return the parser of this command."""
    made = command_parser(
        "batch",
        "[OPTIONS] submit FILE | list | status [NAME] | results [NAME] | cancel NAME",
        "Let a vendor answer many requests together, within a day and at a lower price. FILE has a request a line,\n"
        "as JSON: a text, or an object with id, prompt (or messages) and system. Policies decide about each request;\n"
        "one that they refuse is left out, and its result says so. A batch is on record before it is sent: submitting\n"
        "the same file again continues what was interrupted, and sends nothing twice.",
        examples(
            "pluggent batch submit questions.jsonl -m openai/gpt-5-mini",
            "pluggent batch status                      how far the latest is; exit code 6 while it runs",
            "pluggent batch results 3f2a > answers.jsonl",
            "pluggent batch cancel 3f2a",
        ),
    )
    made.add_argument("words", metavar="ACTION", nargs="*", help=f"one of {', '.join(ACTIONS)}, and what belongs to it")
    made.add_argument("-m", "--model", metavar="MODEL", default="", help="such as openai/gpt-5-mini, gpt-5-mini, or an"
                      " alias of the settings")  # fmt: skip
    made.add_argument("-o", "--option", metavar="NAME=VALUE", dest="parameters", action="append", default=[],
                      help="a parameter of the model, such as max_output_tokens=500 (repeatable)")  # fmt: skip
    made.add_argument("--system", metavar="TEXT", default="", help="the system prompt of lines that have none")
    made.add_argument("--again", action="store_true", help="submit a file once more that was submitted before")
    return made


def run(options: argparse.Namespace, console: Console) -> int:
    """Run the action that *options* name."""
    what, rest = action("batch", options.words, ACTIONS)
    if what in ("", "list") and rest:
        raise ConfigError("pluggent batch", [f"{what or 'list'} takes no name, got {rest[0]!r}"])
    setup = prepare(options, console)
    log_to(console, debug=options.debug)
    # Here and not above, with the host behind it: completion reads the parser of this command.
    from pluggent_cli.batches.kept import KeptBatches

    kept = KeptBatches(setup.state_dir)
    if what in ("", "list"):
        return _list(kept, console)
    if what == "submit":
        return _submitted(setup, options, console, kept, Path(one_name("batch submit", rest)))
    if len(rest) > 1 or (what == "cancel" and not rest):
        raise ConfigError(f"pluggent batch {what}", ["takes one name; to see them: pluggent batch list"])
    return process.run(_about(what, setup, console, kept, kept.named(rest[0] if rest else "")))


# ---- submitting -------------------------------------------------------------------------


def _submitted(setup: Setup, options: argparse.Namespace, console: Console, kept: KeptBatches, path: Path) -> int:
    # Here and not above, as in run().
    from pluggent_cli.batches.lines import read_requests
    from pluggent_cli.inputs.parameters import read_model_parameters

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), [f"is not UTF-8: {error.reason} at byte {error.start}"]) from error
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    model = setup.model_named(options.model or setup.settings.model)
    if not model:
        raise ConfigError("--model", ["say which model answers: -m openai/gpt-5-mini"])
    parameters = read_model_parameters(options.parameters) or ModelParameters()
    requests = read_requests(text, str(path), parameters, options.system)
    said = "\0".join([model, repr(sorted(options.parameters)), options.system, text])
    digest = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()
    with kept.alone():
        before = None if options.again else kept.of(digest)
        if before is not None and (before.batch.ticket is not None or not before.batch.sent):
            mend = f"see: pluggent batch status {before.batch.key}; to submit it once more: --again"
            raise ConfigError(str(path), [f"was submitted before, as {before.batch.key}; {mend}"])
        known = None if before is None else before.batch
        batch = process.run(_submit(setup, model, requests, known, kept, str(path.absolute()), digest))
    _tell(batch, console)
    return exits.OK if batch.sent else exits.DENIED


async def _submit(
    setup: Setup, model: str, requests: Mapping[str, ModelRequest], before: Batch | None, kept: KeptBatches,
    source: str, digest: str,
) -> Batch:  # fmt: skip
    async with open_host(setup) as host:
        return await Submitter(host, kept, source, digest).submit(model, requests, before)


@attrs.frozen(eq=False)
class Submitter:
    """Submits one file, and keeps what becomes of it."""

    host: Host
    kept: KeptBatches
    source: str
    digest: str

    async def submit(self, model: str, requests: Mapping[str, ModelRequest], before: Batch | None) -> Batch:
        """Submit *requests*, or find the batch *before*, which was about to be submitted. Raises ProviderError."""
        if before is not None:
            found = await self.host.batches.find(before)
            if found.ticket is not None:
                await self.keep(found)
                return found
        key = "" if before is None else before.key
        return await self.host.batches.submit(model, requests, keep=self.keep, key=key)

    async def keep(self, batch: Batch) -> None:
        """Make *batch* durable."""
        # Here and not above, as in run().
        from pluggent_cli.batches.kept import Kept

        self.kept.write(Kept(batch, self.source, self.digest))


def _tell(batch: Batch, console: Console) -> None:
    denied = {item.id: item.denied for item in batch.items if item.denied is not None}
    if console.json:
        console.document({**_document(batch), "denied": {id: list(why) for id, why in denied.items()}})
        return
    for id, (by, why) in denied.items():
        console.note(console.err_ink("yellow", f"denied: {escape_all(id)}: {escape_all(by)}: {escape_all(why)}"))
    if batch.ticket is None:
        console.error("nothing was submitted: no request is left")
    else:
        console.line(batch.key)
        console.note(f"{len(batch.sent):,} requests are with {escape_all(batch.ticket.target)}, as {_vendor_id(batch)}")
        console.note(f"To see how far it is: pluggent batch status {batch.key}")


# ---- afterwards -------------------------------------------------------------------------


async def _about(what: str, setup: Setup, console: Console, kept: KeptBatches, one: Kept) -> int:
    async with open_host(setup) as host:
        batch = one.batch
        if batch.ticket is None and batch.sent:
            batch = await _found(host, kept, one)
        if what == "cancel":
            await host.batches.cancel(batch)
        if what == "results":
            return await _results(host, batch, console)
        state = await host.batches.state(batch)
        _show(batch, state, console)
    return exits.OK if state.ended or what == "cancel" else exits.PAUSED


async def _found(host: Host, kept: KeptBatches, one: Kept) -> Batch:
    """Return the batch, which was about to be submitted, with its ticket. Raises ConfigError if it was not."""
    found = await host.batches.find(one.batch)
    if found.ticket is None:
        source = escape_all(one.source)
        raise ConfigError(f"batch {one.batch.key}", [f"was not submitted; to do it: pluggent batch submit {source}"])
    kept.write(attrs.evolve(one, batch=found))
    return found


async def _results(host: Host, batch: Batch, console: Console) -> int:
    # Here and not above, as in run().
    from pluggent_cli.batches.lines import result_document

    state = await host.batches.state(batch)
    count = 0
    async with aclosing(host.batches.results(batch)) as results:
        async for result in results:
            console.line(json.dumps(result_document(result), ensure_ascii=not _is_unicode()))
            count += 1
    if count < len(batch.items):
        console.note(f"{count:,} of {len(batch.items):,} results; the batch is {escape_all(state.status)}")
    return exits.OK if state.ended else exits.PAUSED


def _is_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def _show(batch: Batch, state: BatchState, console: Console) -> None:
    if console.json:
        console.document({**_document(batch), "state": attrs.asdict(state)})
        return
    counts = f"{state.done:,} done, {state.failed:,} failed, of {state.total:,}"
    console.line(f"{batch.key}  {escape_all(state.status)}  {counts}")
    if state.problem:
        console.note(console.err_ink("yellow", escape_all(state.problem)))
    if state.ended:
        console.note(f"To print the results: pluggent batch results {batch.key}")


def _list(kept: KeptBatches, console: Console) -> int:
    found = kept.all()
    if console.json:
        console.document({"batches": [{**_document(each.batch), "source": each.source} for each in found]})
        return exits.OK
    if not found:
        console.note("there is no batch; to submit one: pluggent batch submit FILE")
        return exits.OK
    console.table(
        ("NAME", "BEGUN", "MODEL", "REQUESTS", "AT THE VENDOR"),
        [
            Row((each.batch.key, moment(each.batch.begun_s), escape_all(each.batch.model), f"{len(each.batch.sent):,}",
                 _vendor_id(each.batch)))
            for each in found
        ],
    )  # fmt: skip
    return exits.OK


def _vendor_id(batch: Batch) -> str:
    return escape_all(batch.ticket.id) if batch.ticket is not None else "(about to be submitted)"


def _document(batch: Batch) -> Mapping[str, Any]:
    return {
        "name": batch.key, "model": batch.model, "begun_s": batch.begun_s, "requests": len(batch.sent),
        "id": None if batch.ticket is None else batch.ticket.id,
    }  # fmt: skip
