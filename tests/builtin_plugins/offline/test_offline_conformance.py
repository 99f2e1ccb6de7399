from __future__ import annotations

from collections.abc import Sequence

from pluggent_hookspecs import Message
from pluggent_offline.grammar import Call, render
from pluggent_offline.plugin import Offline
from pluggent_testing.providers import Made, ProviderConformance, Wanted, opened


class TestOffline(ProviderConformance):
    deterministic = True
    any_model = True

    def make_provider(self) -> Made:
        return opened(Offline())

    def ask_for_calls(self, *rounds: Sequence[Wanted]) -> Message:
        return Message.user(render([[Call(name, arguments) for name, arguments in calls] for calls in rounds]))
