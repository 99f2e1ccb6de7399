"""Who asks a server of Amazon's: requests are signed with credentials."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from pluggent_hookspecs import ProviderError, ProviderErrorKind as Kind

from pluggent_provider_http.aws.endpoint import AwsEndpoint
from pluggent_provider_http.aws.place import scope_of
from pluggent_provider_http.aws.signer import Signer
from pluggent_provider_http.endpoint import Endpoint
from pluggent_provider_http.identity import Identity, Proof
from pluggent_provider_http.server_errors import Faults

CREDENTIALS = "the AWS credentials"


@attrs.frozen
class AwsIdentity(Identity):
    """Signs with the credentials of *signer*."""

    signer: Signer
    credentials: str = CREDENTIALS
    """What a person has to look at if they are refused."""

    async def prepare(self, faults: Faults) -> None:
        """Get credentials that last. Raises ProviderError."""
        if not self.signer.scope.region:
            raise faults.error(Kind.BAD_REQUEST, "a signature names the region: set region, or AWS_REGION")
        await self.signer.ready(faults)

    def proof(self, faults: Faults) -> Proof:
        """Return what is secret; the signature is made when everything else is there."""
        return Proof(secrets=self.signer.secrets, credentials=self.credentials)

    def sign(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
        """Return the signature."""
        return self.signer.headers(method, url, headers, body)

    def refused(self, error: ProviderError, headers: Mapping[str, str]) -> ProviderError:
        """Return what a refusal means for the next request."""
        return self.signer.explained(error, headers)


def aws_identity(server: Endpoint, credentials: str = CREDENTIALS) -> AwsIdentity:
    """Return who asks *server*, which is an AwsEndpoint."""
    assert isinstance(server, AwsEndpoint), "only servers with a region are asked with a signature"
    scope = scope_of(server.base_url, server.region, server.service, server.profile)
    return AwsIdentity(Signer(scope, server.profile), credentials)
