"""What every provider has to do, as tests to be inherited.

    class TestMine(ProviderConformance):
        def make_provider(self):
            return Mine()

The tests need pytest and no plugin of it: each runs a story in an event loop of its own. They ask
the model that is there, so they know little of what it says. With a server of the suite's own at
the other end much more can be asked: see WireConformance in providers_wire.py.
"""

from __future__ import annotations

import pytest

from pluggent_testing.providers_asking import Made, Wanted, opened
from pluggent_testing.providers_lifetimes import Lifetimes
from pluggent_testing.providers_obedience import Obedience
from pluggent_testing.providers_replies import NamesAndReplies
from pluggent_testing.providers_requests import Requests
from pluggent_testing.providers_stories import Stories, transcript_shape
from pluggent_testing.providers_suite import Maker

__all__ = ["Made", "ProviderConformance", "Wanted", "opened", "transcript_shape"]


class ProviderConformance(NamesAndReplies, Requests, Obedience, Lifetimes, Stories):
    """The promises of ``pluggent_hookspecs.Provider``. Inherit, and say how a provider is made.

    What the suite may expect of the model at the other end is said by the attributes of
    providers_suite.Suite: ``tools = False`` for one that knows no tools, ``deterministic = True``
    for one that gives the same reply each time, ``ask_for_calls`` for what makes it call tools.
    """

    def make_provider(self) -> Made:
        """Return a provider, an awaitable of one, or a context manager that yields one.

        ``opened(MyPlugin(…))`` is the provider of a plugin that has to be opened. A context
        manager has to be one that can be entered again, in another event loop.
        """
        raise TypeError(f"{type(self).__name__} does not say how a provider is made: write make_provider(self)")

    @pytest.fixture
    def maker(self) -> Maker:
        """Return what makes a provider."""
        return self.make_provider
