"""``pluggent models list``, ``show``, ``diff`` and ``refresh``: the catalog of models, without asking a provider."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs.errors import ConfigError
from pluggent_models.catalog import ModelCatalog
from pluggent_models.model import Cost, Model, json_of
from pluggent_models.sources import Change
from pluggent_plugin_loader.suggestions import did_you_mean

from pluggent_cli import exits
from pluggent_cli.host_access import bare_setup
from pluggent_cli.model_catalog.kept import catalog_in, keep, news
from pluggent_cli.parsing import one_name
from pluggent_cli.terminal.console import Console, Row, warning
from pluggent_cli.terminal.tty import check_outside

_HEAD = ("MODEL", "CONTEXT", "OUTPUT", "$ IN", "$ CACHED", "$ OUT", "TAKES")
_MOST_CHANGES = 100


def run(action: str, words: list[str], console: Console) -> int:
    """Run *action* with its *words*. Raises ConfigError."""
    state_dir = bare_setup().state_dir
    if action == "show":
        return _show(catalog_in(state_dir), one_name("models show", words), console)
    if len(words) > 1:
        takes = "PATTERN" if action == "list" else "URL or FILE"
        raise ConfigError(f"pluggent models {action}", [f"takes one {takes}, got {len(words)}"])
    word = words[0] if words else ""
    if action == "list":
        return _list(catalog_in(state_dir), word, console)
    return _refresh(state_dir, word, console, dry=action == "diff")


# ---- what is known ----------------------------------------------------------------------


def _list(catalog: ModelCatalog, pattern: str, console: Console) -> int:
    found = [model for model in catalog.models() if _is_meant(model, pattern)]
    if console.json:
        console.document({"catalog": catalog.place, "models": [json_of(model) for model in found]})
    elif found:
        console.table(_HEAD, [_row(model) for model in found])
        about = "dollars for a million tokens; when and where each was read: pluggent models show MODEL"
        console.note(console.err_ink("dim", about))
    else:
        console.line(f"the catalog has no model like {escape_all(pattern)}; servers: {', '.join(catalog.servers)}")
    return exits.OK if found else exits.FAILED


def _is_meant(model: Model, pattern: str) -> bool:
    """Say whether *pattern* is the model's server, a part of its id, or a pattern with ``*`` for all of it."""
    return not pattern or pattern in (model.server, model.id) or pattern in model.id or fnmatchcase(model.id, pattern)


def _row(model: Model) -> Row:
    cost = model.cost
    prices = ("", "", "") if cost is None else (_dollars(cost.input), _dollars(cost.cached), _dollars(cost.output))
    return Row((model.id, _count(model.context), _count(model.max_output), *prices, " ".join(model.takes)), ("bold",))


def _show(catalog: ModelCatalog, name: str, console: Console) -> int:
    model = catalog.find(name)
    if model is None:
        near = did_you_mean(name, [one.id for one in catalog.models()]) or f"; servers: {', '.join(catalog.servers)}"
        raise ConfigError("pluggent models show", [f"the catalog does not know {name!r}{near}"])
    if console.json:
        console.document({"catalog": catalog.place, "model": json_of(model)})
        return exits.OK
    console.line(console.ink("bold", escape_all(model.id)))
    for title, text in _facts(model):
        if text:
            console.line(f"  {title:<12}{escape_all(text)}")
    return exits.OK


def _facts(model: Model) -> Iterator[tuple[str, str]]:
    yield "name", model.name
    yield (
        "windows",
        ", ".join(
            f"{_count(size)} {what}"
            for what, size in (("in all", model.context), ("input", model.max_input), ("output", model.max_output))
            if size is not None
        ),
    )
    yield "takes", ", ".join(model.takes)
    yield "gives", ", ".join(model.gives)
    yield "thinking", "" if model.thinks is None else "yes" if model.thinks else "no"
    yield "efforts", ", ".join(model.efforts)
    flags = (("tools", model.tools), ("output schemas", model.schema), ("temperature", model.temperature))
    yield "has", ", ".join(what for what, has in flags if has)
    yield "lacks", ", ".join(what for what, has in flags if has is False)
    yield "API", model.wire or ""
    if model.cost is not None:
        yield "price", _priced(model.cost)
        for over, cost in model.cost.above:
            yield "", f"above {over:,} tokens of input: {_priced(cost)}"
    yield "status", model.status
    yield "released", model.released
    yield "as of", f"{model.date}, {model.source}" if model.date else ""


def _priced(cost: Cost) -> str:
    kinds = (
        ("input", cost.input), ("read from the cache", cost.cached), ("written to the cache", cost.cache_write),
        ("output", cost.output), ("thinking", cost.reasoning), ("sound in", cost.input_audio),
        ("sound out", cost.output_audio),
    )  # fmt: skip
    return ", ".join(f"{what} ${_dollars(rate)}" for what, rate in kinds if rate is not None)


def _dollars(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.6f}".rstrip("0").rstrip(".")


def _count(tokens: int | None) -> str:
    return "" if tokens is None else f"{tokens:,}"


# ---- what is new ------------------------------------------------------------------------


def _refresh(state_dir: Path, source: str, console: Console, *, dry: bool) -> int:
    if not dry:
        # A budget may be told to believe the file, and must not be told so by what it limits.
        check_outside("pluggent models refresh")
    models, found, problem = news(state_dir, source)
    if problem:
        console.error(warning(console, f"{problem}. The shipped catalog is taken in its place"))
    path = None if dry else keep(state_dir, models)
    if console.json:
        kept = None if path is None else str(path)
        console.document({"file": kept, "models": len(models), "changes": [_change_json(one) for one in found]})
        return exits.OK
    if dry:
        for one in found[:_MOST_CHANGES]:
            _change(one, console)
        if len(found) > _MOST_CHANGES:
            console.line(f"and {len(found) - _MOST_CHANGES:,} more; all of them: pluggent models diff --json")
    kinds = [sum(one.kind == kind for one in found) for kind in ("added", "changed")]
    console.line(f"{len(models):,} models: {kinds[0]:,} new, {kinds[1]:,} changed")
    if path is not None:
        console.line(f"kept in {escape_all(str(path))}")
    return exits.OK


def _change(change: Change, console: Console) -> None:
    sign, style = {"added": ("+", "green"), "removed": ("-", "red")}.get(change.kind, ("~", "yellow"))
    console.line(f"{console.ink(style, sign)} {escape_all(change.id)}")
    for name, before, after in change.fields:
        console.line(f"    {name}: {escape_all(_text(before))} -> {escape_all(_text(after))}")


def _text(value: object) -> str:
    return "unknown" if value is None else str(value)


def _change_json(change: Change) -> dict[str, object]:
    fields = {name: {"before": before, "after": after} for name, before, after in change.fields}
    return {"model": change.id, "kind": change.kind, "fields": fields}
