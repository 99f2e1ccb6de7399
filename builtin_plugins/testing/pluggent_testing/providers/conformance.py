"""What every provider has to do, as tests to be inherited.

    class TestMine(ProviderConformance):
        def make_provider(self):
            return Mine()

The tests need pytest and no plugin of it: each runs a story in an event loop of its own. They ask
the model that is there, so they know little of what it says. With a server of the suite's own at
the other end much more can be asked: see WireConformance in wires/conformance.py.
"""

from __future__ import annotations

import pytest

from pluggent_testing.providers.asking import Made
from pluggent_testing.providers.lifetimes import Lifetimes, Obedience
from pluggent_testing.providers.replies import NamesAndReplies
from pluggent_testing.providers.requests import Requests
from pluggent_testing.providers.stories import Stories
from pluggent_testing.providers.suite import Maker


class ProviderConformance(NamesAndReplies, Requests, Obedience, Lifetimes, Stories):
    """The promises of ``pluggent_hookspecs.Provider``. Inherit, and say how a provider is made.

    What the suite may expect of the model at the other end is said by the attributes of
    providers.suite.Suite: ``tools = False`` for one that knows no tools, ``deterministic = True``
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
