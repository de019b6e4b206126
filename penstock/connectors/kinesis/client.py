"""How to get to Kinesis: Flink's properties as a client of boto3, and its errors in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.core.errors import ConfigError, ConnectorError
from penstock.core.optional import require

REGION = "aws.region"
ENDPOINT = "aws.endpoint"
PROVIDER = "aws.credentials.provider"
_BASIC = f"{PROVIDER}.basic."
_PROFILE = f"{PROVIDER}.profile.name"
_CHAIN = ("AUTO", "ENV_VAR", "SYS_PROP", "WEB_IDENTITY_TOKEN")
"""Ways that boto3 looks for by itself."""

NOT_FOUND = "ResourceNotFoundException"
EXPIRED = "ExpiredIteratorException"
INVALID = "InvalidArgumentException"
THROTTLED = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "LimitExceededException",
        "KMSThrottlingException",
        "ThrottlingException",
    }
)


@dataclass(frozen=True)
class KinesisAccess:
    """Region, endpoint and credentials. Sent to the slots; the credentials are shown nowhere."""

    properties: Mapping[str, str] = field(repr=False)

    def __post_init__(self) -> None:
        self._credentials()

    def open(self) -> Any:
        """A client. Threads may share it."""
        boto3 = require("boto3", "kinesis")
        config = require("botocore.config", "kinesis").Config(
            connect_timeout=5, read_timeout=15, retries={"mode": "standard", "max_attempts": 4}
        )
        credentials = self._credentials()
        with errors("Kinesis"):
            session = boto3.Session(profile_name=credentials.pop("profile_name", None))
            return session.client(
                "kinesis",
                region_name=self.properties.get(REGION) or None,
                endpoint_url=self.properties.get(ENDPOINT) or None,
                config=config,
                **credentials,
            )

    def _credentials(self) -> dict[str, str]:
        """What the client is told; nothing if it shall look where AWS clients look."""
        given = {
            name: self.properties.get(_BASIC + name) for name in ("accesskeyid", "secretkey", "sessiontoken")
        }
        basic = bool(given["accesskeyid"] and given["secretkey"])
        provider = str(self.properties.get(PROVIDER) or ("BASIC" if basic else "AUTO")).upper()
        if provider == "BASIC" and basic:
            names = {"accesskeyid": "aws_access_key_id", "secretkey": "aws_secret_access_key"}
            names["sessiontoken"] = "aws_session_token"
            return {names[name]: value for name, value in given.items() if value}
        if provider == "PROFILE":
            return {"profile_name": self.properties.get(_PROFILE) or "default"}
        if provider not in _CHAIN:
            raise ConfigError(
                f"{PROVIDER}={provider} cannot be used: it is BASIC (with {_BASIC}accesskeyid and "
                f"{_BASIC}secretkey), PROFILE (with {_PROFILE}) or AUTO, which looks where AWS clients look. "
                "To assume a role name it as role_arn in a profile of the AWS configuration"
            )
        return {}


def stream_argument(stream: str) -> dict[str, str]:
    """A stream's name or ARN as calls take it."""
    return {"StreamARN" if stream.startswith("arn:") else "StreamName": stream}


def code_of(error: Exception) -> str:
    """AWS' name of an error; empty if it is not one of theirs."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


@contextmanager
def errors(what: str) -> Iterator[None]:
    """Say what it was about; the client's own words hold no credentials."""
    known = require("botocore.exceptions", "kinesis")
    try:
        yield
    except (known.BotoCoreError, known.ClientError) as error:
        if code_of(error) == NOT_FOUND:
            raise ConnectorError(
                f"{what} does not exist: create it, or correct its name and region"
            ) from None
        raise ConnectorError(f"{what}: {error}") from None


def summary(client: Any, stream: str) -> dict[str, Any]:
    """``DescribeStreamSummary``."""
    found: dict[str, Any] = client.describe_stream_summary(**stream_argument(stream))[
        "StreamDescriptionSummary"
    ]
    return found


def created_ms(client: Any, stream: str) -> int:
    """When a stream was made; an error unless it can be read."""
    about = summary(client, stream)
    if about["StreamStatus"] not in ("ACTIVE", "UPDATING"):
        raise ConnectorError(
            f"the Kinesis stream {stream!r} cannot be used now: it is {about['StreamStatus']}"
        )
    return int(about["StreamCreationTimestamp"].timestamp() * 1000)


def list_shards(client: Any, stream: str) -> list[dict[str, Any]]:
    """All shards that have records left, or may get some."""
    answer = client.list_shards(**stream_argument(stream))
    found = list(answer["Shards"])
    while token := answer.get("NextToken"):
        answer = client.list_shards(NextToken=token)
        found += answer["Shards"]
    return found
