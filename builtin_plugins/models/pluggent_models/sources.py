"""Where models come from: models.dev, a catalog, or a TOML file of one's own; and what is new in one. Pure."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, cast

import attrs

from pluggent_models.catalog import MAGIC, CatalogError, ModelCatalog
from pluggent_models.model import Model, Wire, json_of, model_of

MODELS_DEV = "https://models.dev/api.json"
_SOURCE = "https://models.dev"
_SERVERS: Mapping[str, str] = {
    "alibaba": "dashscope", "amazon-bedrock": "bedrock", "anthropic": "anthropic", "azure": "azure",
    "cerebras": "cerebras", "deepseek": "deepseek", "fireworks-ai": "fireworks", "google": "gemini", "groq": "groq",
    "huggingface": "huggingface", "mistral": "mistral", "moonshotai": "moonshot", "nebius": "nebius",
    "ollama-cloud": "ollama", "openai": "openai", "openrouter": "openrouter", "sambanova": "sambanova",
    "snowflake-cortex": "snowflake", "togetherai": "together", "xai": "xai", "zai": "zai",
}  # fmt: skip
"""The servers that are taken of models.dev, and what they are called here."""
_RATES = {"input": "input", "output": "output", "cache_read": "cached", "cache_write": "cache_write",
          "reasoning": "reasoning", "input_audio": "input_audio", "output_audio": "output_audio"}  # fmt: skip
_SHAPES: Mapping[str, Wire] = {"responses": "responses", "completions": "chat"}
# What OpenAI has for chat completions alone: https://developers.openai.com/api/docs/models
_CHAT_MODELS = ("*-audio*", "*-search-preview*", "gpt-3.5-turbo-instruct*")
_DATE = re.compile(r"20\d\d-[01]\d-[0-3]\d")
_FEWEST = 3
"""Fewer servers than this are no catalog: another document, or the start of one."""


def read_models(content: bytes, place: str, date: str) -> tuple[Model, ...]:
    """Return the models in *content*: a catalog, the JSON of models.dev as of *date*, or TOML of one's own.

    TOML has ``[[model]]`` tables with the fields of Model; ``date`` (when the price was read) and ``source`` are
    required there. Raises CatalogError naming every problem, and *place*.
    """
    if content[:2] == MAGIC:
        return tuple(ModelCatalog(content, place).models())
    if content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{":
        return _of_models_dev(content, place, date)
    return _of_toml(content, place)


def merged(old: Iterable[Model], new: Iterable[Model]) -> tuple[Model, ...]:
    """Return the models of both, by their ids: what *new* says of one counts, what it does not say stays.

    A price of *old* stays where it was read later than that of *new*. Models that *new* does not have stay:
    a price is wanted for a model that its vendor no longer lists, too.

    >>> old = [Model(id="a/b", name="B", context=100), Model(id="a/c")]
    >>> merged(old, [Model(id="a/b", context=200)])
    ... # doctest: +ELLIPSIS
    (Model(id='a/b', name='B', context=200, ...), Model(id='a/c', ...))
    """
    found = {model.id: model for model in old}
    for model in new:
        before = found.get(model.id)
        found[model.id] = model if before is None else _joined(before, model)
    return tuple(found[name] for name in sorted(found))


def _joined(old: Model, new: Model) -> Model:
    said = {name: getattr(new, name) for name in json_of(new)}
    if old.cost is not None and (new.cost is None or old.date > new.date):
        said |= {"cost": old.cost, "date": old.date, "source": old.source}
    return attrs.evolve(old, **said)


class Change(NamedTuple):
    """What differs for one model: ``fields`` are name, before and after. ``kind``: added, removed or changed."""

    id: str
    kind: str
    fields: tuple[tuple[str, object, object], ...] = ()


def changes(old: Iterable[Model], new: Iterable[Model]) -> tuple[Change, ...]:
    """Return what differs, by ids; when and where a price was read is no difference.

    >>> changes([Model(id="a/b", context=1)], [Model(id="a/b", context=2)])
    (Change(id='a/b', kind='changed', fields=(('context', 1, 2),)),)
    """
    return tuple(_changes({model.id: model for model in old}, {model.id: model for model in new}))


def _changes(old: Mapping[str, Model], new: Mapping[str, Model]) -> Iterator[Change]:
    for name in sorted({*old, *new}):
        if name not in new or name not in old:
            yield Change(name, "removed" if name in old else "added")
            continue
        before, after = json_of(old[name]), json_of(new[name])
        differing = [key for key in {**before, **after} if key not in _ABOUT and before.get(key) != after.get(key)]
        if differing:
            yield Change(name, "changed", tuple((key, before.get(key), after.get(key)) for key in differing))


_ABOUT = ("date", "source")


# ---- models.dev -------------------------------------------------------------------------


def _of_models_dev(content: bytes, place: str, date: str) -> tuple[Model, ...]:
    try:
        document: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CatalogError(place, [f"is not the JSON of models.dev: {error}"]) from error
    servers = _table(document)
    known = [(name, server) for name, server in _SERVERS.items() if _table(_table(servers.get(name)).get("models"))]
    if len(known) < _FEWEST:
        raise CatalogError(place, [f"is not the list of models.dev: it has not {_FEWEST} of the servers that we know"])
    models: list[Model] = []
    problems: list[str] = []
    for name, server in known:
        for model, entry in _table(_table(servers[name])["models"]).items():
            try:
                models.append(model_of({**_entry(server, model, _table(entry)), "date": date, "source": _SOURCE}))
            except ValueError as error:
                problems.append(str(error))
    if problems:
        raise CatalogError(place, problems[:20])
    return tuple(models)


def _entry(server: str, model: str, said: Mapping[str, Any]) -> dict[str, Any]:
    limit, kinds = _table(said.get("limit")), _table(said.get("modalities"))
    gives = kinds.get("output", [])
    flags = {"thinks": "reasoning", "tools": "tool_call", "schema": "structured_output", "temperature": "temperature"}
    sizes = {"context": "context", "max_input": "input", "max_output": "output"}
    found: dict[str, Any] = {
        "id": f"{server}/{model}",
        "name": said.get("name", ""),
        "takes": kinds.get("input", []),
        "gives": gives,
        **{name: said[key] for name, key in flags.items() if key in said},
        **{name: limit[key] for name, key in sizes.items() if limit.get(key)},
        **{name: said[key] for name, key in (("status", "status"), ("released", "release_date")) if key in said},
        **_thinking(said.get("reasoning_options")),
    }
    if (wire := _wire(server, model, gives, _table(said.get("provider")).get("shape"))) is not None:
        found["wire"] = wire
    if (cost := _cost(model, said.get("cost"))) is not None:
        found["cost"] = cost
    return found


def _thinking(options: object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for option in cast("list[object]", options) if isinstance(options, list) else []:
        fields = _table(option)
        if fields.get("type") == "effort":
            values = fields.get("values")
            levels = cast("list[object]", values) if isinstance(values, list) else []
            found["efforts"] = ["none" if level in (None, "null") else level for level in levels]
        elif fields.get("type") == "budget_tokens":
            # -1 stands for as many as the model likes
            found["thinking_budget"] = [_bound(fields.get("min")), _bound(fields.get("max"))]
    return found


def _bound(value: object) -> object:
    return None if isinstance(value, int) and value < 0 else value


def _wire(server: str, model: str, gives: object, shape: object) -> Wire | None:
    if isinstance(shape, str) and shape in _SHAPES:
        return _SHAPES[shape]
    if server != "openai" or gives != ["text"] or "embedding" in model:
        return None
    return "chat" if any(fnmatchcase(model, pattern) for pattern in _CHAT_MODELS) else "responses"


def _cost(model: str, said: object) -> dict[str, Any] | None:
    """Return the cost; None where it is unknown.

    Nothing at all for input and output is what plans with a monthly fee say, too: then it is unknown, unless the
    name of the model says that it is free.
    """
    fields = _table(said)
    if "input" not in fields or "output" not in fields:
        return None
    if not fields["input"] and not fields["output"] and not model.endswith(":free"):
        return None
    cost = {ours: fields[theirs] for theirs, ours in _RATES.items() if theirs in fields}
    listed = fields.get("tiers")
    tiers = [_table(tier) for tier in cast("list[object]", listed)] if isinstance(listed, list) else []
    above: list[tuple[Any, dict[str, Any]]] = []
    for tier in tiers:
        size = _table(tier.get("tier"))
        if size.get("type", "context") == "context":
            above.append((size.get("size"), {ours: tier[theirs] for theirs, ours in _RATES.items() if theirs in tier}))
    above.sort(key=lambda pair: pair[0] if isinstance(pair[0], int) else 0)
    return cost | ({"above": above} if above else {})


def _table(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


# ---- a file of one's own ----------------------------------------------------------------


def _of_toml(content: bytes, place: str) -> tuple[Model, ...]:
    try:
        listed: object = tomllib.loads(content.decode()).get("model", [])
    except ValueError as error:  # no UTF-8, or no TOML
        raise CatalogError(place, [f"is no catalog, no JSON and no TOML: {error}"]) from error
    models: list[Model] = []
    problems: list[str] = []
    for number, table in enumerate(cast("list[object]", listed) if isinstance(listed, list) else []):
        try:
            models.append(_of_table(_table(table)))
        except ValueError as error:
            problems.append(f"model[{number}]: {error}")
    if not models and not problems:
        problems.append("expected [[model]] tables")
    if problems:
        raise CatalogError(place, problems)
    return tuple(models)


def _of_table(table: Mapping[str, Any]) -> Model:
    model = model_of({**table, "date": str(table.get("date", ""))})
    if not _DATE.fullmatch(model.date) or not model.source:
        raise ValueError(f"{model.id!r}: date (such as 2026-11-20) and source are required: when and where it was read")
    return model
