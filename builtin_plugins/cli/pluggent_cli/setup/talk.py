"""The talk of ``pluggent setup``: provider, key, model, one call, and what was answered into the settings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple, cast

from pluggent_contract_values.escape import escape_all
from pluggent_hookspecs import ModelInfo
from pluggent_hookspecs.errors import ConfigError, PluggentError
from pluggent_hookspecs.secrets import Secret
from pluggent_plugin_loader.loader import check_settings

from pluggent_cli import process
from pluggent_cli.config.settings_class import Field
from pluggent_cli.config.sources import user_config
from pluggent_cli.config.toml import reference_of
from pluggent_cli.host_access import Setup, working_directory
from pluggent_cli.setup import settings_file, trial
from pluggent_cli.setup.dialog import Dialog, uninterrupted
from pluggent_cli.setup.keys import WHERE, Place, Undo, file_place, is_readable, keyring_place, problem_of, shown_path
from pluggent_cli.setup.offers import OTHER, Offer, chosen
from pluggent_cli.setup.questions import SERVERS, asked
from pluggent_cli.setup.settings_file import Change

_LISTED = 12
"""Models shown at once; a part of a name shows others."""
_NAME_SHOWN = 100
"""Characters of what a server calls a model; what is longer is cut."""
_TRIES = 5
"""How often one question is asked again."""


class Done(NamedTuple):
    """What was set up: the model, the file that says so, and the reference to a key that was stored, if one was."""

    model: str
    path: Path
    key: str


class Answered(NamedTuple):
    """What was answered: ``values`` of the provider *name*, ``keys`` its secrets, by field, that are to be kept."""

    offer: Offer
    name: str
    values: Mapping[str, Any]
    keys: Mapping[str, str]

    @property
    def path(self) -> tuple[str, ...]:
        return self.offer.path(self.name)

    def within(self, setup: Setup) -> Setup:
        """Return *setup* with these in force."""
        plugin = self.offer.record.id
        section: dict[str, Any] = dict(setup.settings.plugins.get(plugin, {}))
        own = {**self.values, **{name: Secret.of(key) for name, key in self.keys.items()}}
        if self.offer.is_server:
            servers = {**section.get(SERVERS, {})}
            servers[self.name] = {**servers.get(self.name, {}), **own}
            section[SERVERS] = servers
        else:
            section |= own
        return trial.with_section(setup, plugin, section)


class Talk:
    """One person sets up one provider."""

    def __init__(self, setup: Setup, dialog: Dialog) -> None:
        self._setup = setup
        self._dialog = dialog
        self._path = user_config(os.environ)
        self._before = settings_file.read(self._path)

    def settled(self, offer: Offer | None, found: tuple[Offer, ...], problems: Sequence[str]) -> Done:
        """Go from the provider to the written settings. Raises PluggentError where that cannot be."""
        say = self._dialog.say
        say("Nothing is written before you have seen it and agreed. Ctrl-C ends setup.", "dim")
        if offer is None:
            say()
            for problem in problems:
                say(f"left out: {problem}", "yellow")
            offer = self._offer(found)
        settings = self._answers(offer, self._taken(offer, found))
        settings, models = self._reached(settings)
        model = self._answering(settings, models)
        return self._written(settings, model)

    # ---- provider ------------------------------------------------------------------------

    def _offer(self, found: tuple[Offer, ...]) -> Offer:
        self._dialog.say("Provider", "bold")
        self._dialog.listed([(one.name or OTHER, one.about) for one in found])
        for _ in range(_TRIES):
            try:
                return chosen(self._dialog.ask("Number or name"), found)
            except ConfigError as error:
                said = "; ".join(error.problems)
                self._dialog.say(f"{said[:1].upper()}{said[1:]}", "red")
        raise ConfigError(WHERE, ["no provider was chosen, and nothing was written"])

    # ---- its settings --------------------------------------------------------------------

    def _taken(self, offer: Offer, found: tuple[Offer, ...]) -> frozenset[str]:
        """Return the names of other plugins' providers: a server of that name would get their key."""
        plugins = self._setup.catalog().available("provider")
        return frozenset((*(one.name for one in plugins), *(one.name for one in found if one.record != offer.record)))

    def _answers(self, offer: Offer, taken: frozenset[str]) -> Answered:
        """Ask for what the settings class needs, until it is right. A new name is none of those *taken*."""
        name = offer.name or self._server_name(taken)
        self._dialog.say()
        for _ in range(_TRIES):
            values: dict[str, Any] = dict(offer.given)
            keys: dict[str, str] = {}
            optional = offer.is_server and not offer.keyless
            for field in () if offer.settings is None else asked(offer.settings, optional=optional):
                if field.is_secret:
                    self._ask_key(offer, name, field, values, keys, anew=False)
                else:
                    values[field.name] = self._ask_value(field, offer.given.get(field.name))
            settings = Answered(offer, name, values, keys)
            if self._is_right(settings):
                return settings
        raise ConfigError(WHERE, ["these settings were not right, and nothing was written"])

    def _server_name(self, taken: frozenset[str]) -> str:
        for _ in range(_TRIES):
            name = self._dialog.ask("A short name for it, for --model NAME/MODEL")
            if not name.isascii() or not name.replace("-", "").replace(".", "").replace("_", "").isalnum():
                self._dialog.say("Take letters, digits and -.", "red")
            elif name in taken:
                self._dialog.say(f"{name} is a provider already; take another name.", "red")
            else:
                return name
        raise ConfigError(WHERE, ["the server got no name, and nothing was written"])

    def _ask_value(self, field: Field, default: object) -> Any:
        about = f" ({field.about})" if field.about and default is None else ""
        if about:
            self._dialog.say(f"{field.name}: {field.about}", "dim")
        text = self._dialog.ask(field.name, str(default or ""))
        if field.type in (bool, int, float):
            return _literal(text)
        return text

    def _ask_key(
        self, offer: Offer, name: str, field: Field, values: dict[str, Any], keys: dict[str, str], *, anew: bool
    ) -> None:
        """Put the key into *keys*, or leave what is there already."""
        reference = self._current(offer, name, field)
        if not anew and is_readable(reference):
            assert isinstance(reference, Secret)
            shown = reference_of(reference)
            if self._dialog.agrees(f"There is a key already ({escape_all(shown)}). Use it?", default=True):
                return
        if field.about:
            self._dialog.say(field.about, "dim")
        what = "API key" if field.name == "api_key" else field.name
        may_be_none = not field.required and not isinstance(field.default, Secret) and not anew
        hint = "; Enter for none" if may_be_none else ""
        for _ in range(_TRIES):
            key = self._dialog.ask_hidden(f"{what} of {name} (what you type is not shown{hint})")
            if not key and may_be_none:
                return
            problem = problem_of(key)
            if not problem:
                keys[field.name] = key
                return
            self._dialog.say(problem, "red")
        raise ConfigError(WHERE, ["no key was given, and nothing was written"])

    def _current(self, offer: Offer, name: str, field: Field) -> object:
        section: Any = _in_force(self._setup, offer, name)
        written = section.get(field.name)
        if isinstance(written, str):
            try:
                return Secret(written)
            except ValueError:
                return None
        return field.default

    def _is_right(self, settings: Answered) -> bool:
        record = settings.offer.record
        section = settings.within(self._setup).settings.plugins[record.id]
        try:
            check_settings(record, section)
        except ConfigError as error:
            for problem in error.problems:
                self._dialog.say(problem, "red")
            return False
        return True

    # ---- is it reached? ------------------------------------------------------------------

    def _reached(self, settings: Answered) -> tuple[Answered, tuple[ModelInfo, ...]]:
        """Ask for the models, and for another key as long as the provider does not accept it."""
        for _ in range(_TRIES):
            self._dialog.say(f"Asking {settings.name} for its models ...", "dim")
            try:
                return settings, process.run(trial.models_of(settings.within(self._setup), settings.name))
            except PluggentError as error:
                settings = self._mended(settings, error)
        raise ConfigError(WHERE, ["it did not work, and nothing was written"])

    def _say_wrong(self, error: PluggentError, settings: Answered) -> None:
        what, _, said = trial.sentence(error, settings.name, own=settings.offer.is_server).partition("\n")
        self._dialog.say(what, "red")
        self._dialog.say(said, "dim")
        self._dialog.say()

    def _mended(self, settings: Answered, error: PluggentError) -> Answered:
        """Say what is wrong; return settings to try next. Raises *error* if the person gives up."""
        self._say_wrong(error, settings)
        fields = () if settings.offer.settings is None else asked(settings.offer.settings, optional=True)
        secrets = [field for field in fields if field.is_secret]
        if trial.is_about_key(error) and secrets:
            keys = dict(settings.keys)
            for field in secrets:
                self._ask_key(settings.offer, settings.name, field, dict(settings.values), keys, anew=True)
            return settings._replace(keys=keys)
        if not self._dialog.agrees("Try again?", default=True):
            raise _given_up(settings) from error
        return settings

    # ---- model ---------------------------------------------------------------------------

    def _answering(self, settings: Answered, models: tuple[ModelInfo, ...]) -> str:
        """Choose a model and make one call, until one answers or the person takes it as it is."""
        current = self._setup.settings.model
        default = current.removeprefix(f"{settings.name}/") if current.startswith(f"{settings.name}/") else ""
        for _ in range(_TRIES):
            model = f"{settings.name}/{self._model(models, default)}"
            self._dialog.say(f"One call to {model} ...", "dim")
            try:
                answer = process.run(trial.answer_of(settings.within(self._setup), model))
            except PluggentError as error:
                self._say_wrong(error, settings)
                if trial.is_about_credit(error):
                    question = "Write the settings all the same?"
                    if self._dialog.agrees(question, default=False):
                        return model
                    raise _given_up(settings) from error
                if trial.is_about_key(error) or not self._dialog.agrees("Try another model?", default=True):
                    raise _given_up(settings) from error
                default = ""
                continue
            text = " ".join(answer.text.split()) or "(an empty answer)"
            self._dialog.say(f"{text[:200]}", "green")
            self._dialog.say(f"({answer.tokens:,} tokens, {answer.seconds:.1f} s)", "dim")
            self._dialog.say()
            return model
        raise ConfigError(WHERE, ["no model answered, and nothing was written"])

    def _model(self, models: tuple[ModelInfo, ...], default: str) -> str:
        known = [model.id for model in models]
        if not known:
            self._dialog.say("It lists no models; type the name of one.")
        else:
            self._dialog.say(f"{len(known):,} model{'' if len(known) == 1 else 's'}", "bold")
        shown = self._show(models, known)
        while True:
            answer = self._dialog.ask("Model" if not known else "Model: number, name, or a part of it", default)
            if answer.isdecimal() and 0 < int(answer) <= len(shown):
                return shown[int(answer) - 1]
            if answer in known or (answer and not known):
                return answer
            near = [name for name in known if answer and answer.lower() in name.lower()]
            if near:
                shown = self._show(models, near)
            elif answer and self._dialog.agrees("It is not in the list. Use it all the same?", default=False):
                return answer

    def _show(self, models: tuple[ModelInfo, ...], names: list[str]) -> list[str]:
        shown = names[:_LISTED]
        called = {model.id: "" if model.name == model.id else model.name[:_NAME_SHOWN] for model in models}
        self._dialog.listed([(name, called.get(name, "")) for name in shown])
        if more := len(names) - len(shown):
            self._dialog.say(f"and {more:,} more: type a part of a name to see them", "dim")
        return shown

    # ---- writing -------------------------------------------------------------------------

    def _written(self, settings: Answered, model: str) -> Done:
        """Show what is to be written, ask, and write the keys and the settings, both or neither."""
        dialog = self._dialog
        places = {field: self._place(settings, field) for field in settings.keys}
        changes = self._changes(settings, model, places)
        text = settings_file.with_changes(self._path, self._before, changes)
        lines = settings_file.difference(self._before, text)
        for field, place in places.items():
            dialog.say(f"The {'key' if field == 'api_key' else field} goes into {place.words}.")
        if not lines and not places:
            dialog.say(f"{shown_path(self._path)} says this already; nothing was written.")
            return Done(model, self._path, "")
        if lines:
            dialog.say(f"The settings, {shown_path(self._path)}:")
            dialog.unwrapped(lines, {"-": "red", "+": "green"})
        replaces = any(line.startswith("-") for line in lines)
        question = "Write this, in place of what is marked with -?" if replaces else "Write this?"
        if not dialog.agrees(question, default=not replaces):
            raise ConfigError(WHERE, ["not agreed to, so nothing was written"])
        for attempt in (0, 1):
            try:
                self._save(places, settings.keys, text)
                break
            except ConfigError as error:
                if error.path != "keyring" or attempt:
                    raise
                dialog.say(f"{error}; it goes into a file", "yellow")
                places = {field: self._file(settings, field) for field in settings.keys}
                text = settings_file.with_changes(self._path, self._before, self._changes(settings, model, places))
        return Done(model, self._path, next((place.reference for place in places.values()), ""))

    def _place(self, settings: Answered, field: str) -> Place:
        kept = keyring_place(_key_name(settings, field))
        question = "" if kept is None else f"Keep it in {kept.words}? If not, in a file that only you can read."
        if kept is not None and self._dialog.agrees(question, default=True):
            return kept
        return self._file(settings, field)

    def _file(self, settings: Answered, field: str) -> Place:
        return file_place(_key_name(settings, field), self._setup.state_dir, working_directory())

    def _changes(self, settings: Answered, model: str, places: Mapping[str, Place]) -> list[Change]:
        made = [Change(("model",), model, "What answers unless --model names another one; all: pluggent models")]
        for name, value in settings.values.items():
            made.append(Change((*settings.path, name), value))
        for name, place in places.items():
            comment = f"Where the key is, read at each request. Another one: pluggent setup {settings.name}"
            made.append(Change((*settings.path, name), place.reference, comment))
        return made

    def _save(self, places: Mapping[str, Place], keys: Mapping[str, str], text: str) -> None:
        undo: list[Undo] = []
        try:
            for field, place in places.items():
                with nullcontext() if place.may_ask else uninterrupted():
                    undo.append(place.save(keys[field]))
            with uninterrupted():
                settings_file.write(self._path, text, self._before)
        except BaseException:
            for each in reversed(undo):
                each()
            raise


def _given_up(settings: Answered) -> PluggentError:
    return PluggentError(f"{settings.name} was not set up, and nothing was written")


def _in_force(setup: Setup, offer: Offer, name: str) -> Mapping[str, Any]:
    """Return the settings of provider *name* that are in force."""
    section: Any = setup.settings.plugins.get(offer.record.id, {})
    for table in (SERVERS, name) if offer.is_server else ():
        section = cast("Mapping[str, Any]", section).get(table) if isinstance(section, Mapping) else None
    return cast("Mapping[str, Any]", section) if isinstance(section, Mapping) else {}


def _key_name(settings: Answered, field: str) -> str:
    return settings.name if field == "api_key" else f"{settings.name}-{field}"


def _literal(text: str) -> Any:
    import tomllib  # for the few that ask for a number

    try:
        return tomllib.loads(f"value = {text}")["value"]
    except ValueError:
        return text  # the settings class says what it wants
