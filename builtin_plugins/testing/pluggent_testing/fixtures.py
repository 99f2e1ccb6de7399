"""The pytest plugin of this distribution: fixtures for plugin authors.

Loaded into every pytest run where it is installed, so it imports nothing until used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # a run that uses no fixture of ours pays for none
    from pluggent_testing.fakes import Recorder, ScriptedModel


@pytest.fixture
def scripted_model() -> type[ScriptedModel]:
    """The class of a model that says what the test tells it to; see pluggent_testing.fakes."""
    from pluggent_testing.fakes import ScriptedModel  # only runs that use it pay

    return ScriptedModel


@pytest.fixture
def recorder() -> Recorder:
    """An observer to be given as a plugin; ``recorder.events`` is what it was told."""
    from pluggent_testing.fakes import Recorder  # only runs that use it pay

    return Recorder()
