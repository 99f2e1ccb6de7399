"""Where Bedrock is: addresses, and the areas of inference profiles."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

NO_REGION = "https://bedrock-runtime.no-region.invalid"
"""The address while no region is known; nothing is sent there."""
_CHINA = "cn-"
# The areas of inference profiles: https://docs.aws.amazon.com/bedrock/latest/userguide/inference-profiles-support.html
_AREA = re.compile(r"(us|us-gov|eu|apac|jp|au|ca|sa|me|af|il|global)\.(?=[a-z0-9-]+\.)")


def runtime_url(region: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return where models are asked: AWS_ENDPOINT_URL_BEDROCK_RUNTIME, else Bedrock in *region*.

    >>> runtime_url("eu-west-1", {})
    'https://bedrock-runtime.eu-west-1.amazonaws.com'
    """
    if url := environ.get("AWS_ENDPOINT_URL_BEDROCK_RUNTIME"):
        return url
    if not region:
        return NO_REGION
    return f"https://bedrock-runtime.{region}.amazonaws.com{'.cn' if region.startswith(_CHINA) else ''}"


def control_url(runtime: str) -> str:
    """Return where models are listed: beside the address of the runtime, else there.

    >>> control_url("https://bedrock-runtime.eu-west-1.amazonaws.com"), control_url("http://127.0.0.1:4566")
    ('https://bedrock.eu-west-1.amazonaws.com', 'http://127.0.0.1:4566')
    """
    return runtime.replace("://bedrock-runtime.", "://bedrock.", 1)


def without_area(model: str) -> str:
    """Return the id of a model without the area of an inference profile, which counting does not take.

    >>> without_area("us.amazon.nova-micro-v1:0"), without_area("amazon.nova-micro-v1:0")
    ('amazon.nova-micro-v1:0', 'amazon.nova-micro-v1:0')
    """
    area = _AREA.match(model)
    return model[area.end() :] if area else model
