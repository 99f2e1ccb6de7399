"""The catalog that ``pluggent models refresh`` keeps in the state folder, and what would change in it."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from pluggent_hookspecs.errors import ConfigError
from pluggent_hookspecs.folders import private_folder
from pluggent_models.catalog import NAME, About, CatalogError, ModelCatalog, packed, read_bytes, read_catalog, shipped
from pluggent_models.model import Model
from pluggent_models.sources import MODELS_DEV, Change, changes, merged, read_models

from pluggent_cli.inputs.attachments import is_url


def catalog_in(state_dir: Path) -> ModelCatalog:
    """Return the catalog that was kept in *state_dir*, or else the shipped one. Raises CatalogError."""
    path = state_dir / NAME
    return read_catalog(path) if os.path.lexists(path) else shipped()


def news(state_dir: Path, source: str) -> tuple[tuple[Model, ...], tuple[Change, ...], str]:
    """Return all models as *source*, a URL or a file (empty: models.dev), makes them, and what differs from now.

    The text is what is wrong with the catalog that was kept, if it cannot be read: then the shipped one is the
    base. Raises ConfigError.
    """
    place = source or MODELS_DEV
    content = _fetched(place, typed=bool(source)) if is_url(place) else read_bytes(Path(place))
    found = read_models(content, place, datetime.now(UTC).date().isoformat())
    problem = ""
    try:
        known = tuple(catalog_in(state_dir).models())
    except CatalogError as error:
        problem = str(error)
        known = tuple(shipped().models())
    after = merged(known, found)
    return after, changes(known, after), problem


def keep(state_dir: Path, models: tuple[Model, ...]) -> Path:
    """Put *models* in the place of what was kept, in one step, and return where. Raises ConfigError."""
    path = state_dir / NAME
    about = About(
        date=max(model.date for model in models), source="https://models.dev", licence=shipped().about.licence
    )
    content = packed(models, about)
    assert tuple(ModelCatalog(content, str(path)).models()) == models
    temporary = state_dir / f"{NAME}.{os.getpid()}"
    try:
        private_folder(state_dir)
        _write(temporary, content)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise ConfigError(str(path), [f"cannot be written: {error.strerror or error}"]) from error
    return path


def _write(path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _fetched(url: str, *, typed: bool) -> bytes:
    try:
        # Here and not above: the HTTP library behind it takes longer than all the rest of the command.
        from pluggent_cli.inputs.url_fetch import fetch, is_public
    except ModuleNotFoundError as error:
        problem = "fetching needs one more package: pip install 'pluggent-cli[urls]'; or give the FILE that it is in"
        raise ConfigError(url, [problem]) from error

    def permits(address: str) -> bool:
        return typed or is_public(address)  # what a person types may be in their own network

    return fetch(url, permits=permits)
