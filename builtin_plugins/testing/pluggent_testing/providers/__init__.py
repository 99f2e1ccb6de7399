"""What every provider has to do, as tests to be inherited; they ask the model that is there."""

from pluggent_testing.providers.asking import Made, Wanted, opened
from pluggent_testing.providers.conformance import ProviderConformance
from pluggent_testing.providers.stories import transcript_shape

__all__ = ["Made", "ProviderConformance", "Wanted", "opened", "transcript_shape"]
