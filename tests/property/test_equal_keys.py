"""What Python holds equal is one key: to the hash, to both backends, over the wire and after a restore."""

from __future__ import annotations

import decimal
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import is_dataclass
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from key_kinds import ANY_KEY, EQUAL_PAIRS

from penstock.core.batch import Batch
from penstock.core.keygroups import hash_array, hash_value, hash_values, key_groups
from penstock.core.keys import canonical_keys
from penstock.core.pickling import dumps
from penstock.core.row import Row
from penstock.exchange.partition import Hash, make_router
from penstock.state.files import StateBlocks, write_blocks
from penstock.state.heap.backend import heap_state
from penstock.state.rocks import keys as row_keys

GROUPS = 128


def hashed_roughly(key: Any) -> int:
    with decimal.localcontext() as context:
        context.prec, context.capitals, context.rounding = 5, 0, decimal.ROUND_UP
        return hash_value(key)


@settings(max_examples=1500, deadline=None)
@given(EQUAL_PAIRS)
def test_equal_keys_are_in_one_place(pair: tuple[Any, Any]) -> None:
    one, other = canonical_keys(list(pair))
    assert hash_value(one) == hash_value(other)
    assert hash_values([one, other]).tolist() == [hash_value(one)] * 2
    assert {one: 7}.get(other) == 7, "the heap looks keys up as Python does"
    assert row_keys.encode(one) == row_keys.encode(other)
    sent = pickle.loads(dumps([other]))[0]
    assert {one: 7}.get(sent) == 7, "over the wire"
    assert canonical_keys([one])[0] is one, "what is canonical stays as it is"


@settings(max_examples=300, deadline=None)
@given(EQUAL_PAIRS)
def test_equal_keys_find_their_state_after_a_restore(pair: tuple[Any, Any]) -> None:
    one, other = canonical_keys(list(pair))
    before = heap_state()
    before.table("count").put(one, 41)
    data = b"".join(block for block, _ in write_blocks(before.freeze(), GROUPS))
    group = int(key_groups(hash_values([other]), GROUPS)[0])
    after = heap_state()
    after.restore(StateBlocks(data, group, group))
    assert after.table("count").get(other) == 41


@settings(max_examples=500, deadline=None)
@given(ANY_KEY)
def test_a_hash_is_the_same_in_every_thread(key: Any) -> None:
    (key,) = canonical_keys([key])
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(hashed_roughly, key).result() == hash_value(key)
    with decimal.localcontext() as context:
        context.prec, context.capitals = 3, 0
        bytes_here = row_keys.encode(key)
    assert bytes_here == row_keys.encode(key)


@settings(max_examples=1500, deadline=None)
@given(ANY_KEY, ANY_KEY)
def test_keys_that_differ_have_different_rows(one: Any, other: Any) -> None:
    one, other = canonical_keys([one, other])
    try:
        are_one = {one: 7}.get(other) == 7
    except NotImplementedError:  # pandas, with a subclass of datetime that is not its own
        return
    if not are_one:
        assert row_keys.encode(one) != row_keys.encode(other)


@settings(max_examples=300, deadline=None)
@given(EQUAL_PAIRS)
def test_a_column_of_keys_hashes_as_they_do(pair: tuple[Any, Any]) -> None:
    if isinstance(pair[0], tuple | Row) or is_dataclass(pair[0]):
        return
    try:
        column = pa.array([pair[0]])
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return
    (read,) = canonical_keys(column.to_pylist())
    (one,) = canonical_keys([pair[1]])
    if {one: 7}.get(read) == 7:
        assert hash_array(column).tolist() == [hash_value(one)]


@settings(max_examples=300, deadline=None)
@given(EQUAL_PAIRS, st.integers(2, 7))
def test_a_record_alone_goes_where_equal_ones_go_among_others(pair: tuple[Any, Any], receivers: int) -> None:
    one, other = pair
    router = make_router(Hash(lambda value: value), 0, 1, receivers, GROUPS)
    ((alone, _),) = router.route(Batch.of_rows([one]))
    for among in ([other, one], [other, other], [other, "a", 1, 1.5]):
        places = [
            target for target, share in router.route(Batch.of_rows(among)) if share.to_rows()[0] is other
        ]
        assert places == [alone]
