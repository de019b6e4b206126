"""What answers of transaction coordinators mean for a commit."""

from __future__ import annotations

import pytest

from penstock.connectors.kafka.transactions import PreparedTransaction
from penstock.connectors.kafka.wire import EndAnswer, TransactionClient, Unavailable, _check, _meaning
from penstock.core.errors import ConnectorError

ITEM = PreparedTransaction("p-1", 7, 0, 3, 10, ("t",), 60_000)


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (0, EndAnswer.DONE),
        (14, EndAnswer.NOT_NOW),  # the coordinator loads its log
        (15, EndAnswer.NOT_NOW),  # there is none
        (16, EndAnswer.NOT_NOW),  # it is another one
        (51, EndAnswer.NOT_NOW),  # it is busy with this id
        (47, EndAnswer.REFUSED),  # an old epoch, as brokers before 2.7 say it
        (90, EndAnswer.REFUSED),  # an old epoch
        (48, EndAnswer.REFUSED),  # nothing is open
        (49, EndAnswer.REFUSED),  # the id is unknown
    ],
)
def test_answers_to_a_commit(code: int, answer: EndAnswer) -> None:
    assert _meaning(code, ITEM) is answer


def test_what_is_not_allowed_is_said_with_the_id() -> None:
    with pytest.raises(
        ConnectorError, match=r"'p-1' \(TransactionalIdAuthorizationFailedError\); allow WRITE"
    ):
        _meaning(53, ITEM)
    with pytest.raises(ConnectorError, match="refused a request for 'p-1': UnsupportedVersionError"):
        _meaning(35, ITEM)
    with pytest.raises(Unavailable, match="CoordinatorLoadInProgressError"):
        _check(14, "p-1")


def test_patience_ends_with_a_sentence() -> None:
    client = TransactionClient({"bootstrap.servers": "127.0.0.1:1"}, timeout_ms=50)
    asked = []

    def ask() -> str:
        asked.append(1)
        if len(asked) < 3:
            raise Unavailable("it loads")
        return "answer"

    assert client.patiently(ask) == "answer"
    with pytest.raises(ConnectorError, match=r"127\.0\.0\.1:1 do not answer requests about transactions"):
        client.patiently(lambda: client.describe(["x"]), patience_s=0)
    client.close()
