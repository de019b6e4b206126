"""The valve: the cases of Flink's StatusWatermarkValveTest, and properties."""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.ids import MAX_TIME, MIN_TIME
from penstock.event_time.watermark_valve import NOTHING, ValveResult, WatermarkValve

IDLE = ValveResult(None, True)
ACTIVE = ValveResult(None, False)


def feed(valve, *pairs):
    return [valve.on_watermark(channel, time) for channel, time in pairs]


def test_single_input_increasing():
    valve = WatermarkValve(1)
    assert feed(valve, (0, 0), (0, 25)) == [0, 25]


def test_single_input_decreasing_gives_nothing():
    assert feed(WatermarkValve(1), (0, 25), (0, 18), (0, 42)) == [25, None, 42]


def test_single_input_status_toggling():
    valve = WatermarkValve(1)
    assert valve.on_active(0) is NOTHING
    assert valve.on_idle(0) == IDLE
    assert valve.on_idle(0) is NOTHING
    assert valve.on_active(0) == ACTIVE


def test_single_input_watermark_intact_during_idleness():
    valve = WatermarkValve(1)
    assert valve.on_watermark(0, 25) == 25
    assert valve.on_idle(0) == IDLE
    assert valve.on_watermark(0, 50) is None
    assert valve.channel_watermark(0) == 25
    assert valve.on_active(0) == ACTIVE
    assert valve.on_watermark(0, 50) == 50


def test_output_only_when_all_channels_have_watermarks():
    assert feed(WatermarkValve(3), (0, 0), (1, 0), (2, 0)) == [None, None, 0]


def test_multiple_inputs_increasing():
    valve = WatermarkValve(3)
    feed(valve, (0, 0), (1, 0), (2, 0))
    assert feed(valve, (0, 12), (2, 8), (2, 10)) == [None, None, None]
    assert feed(valve, (1, 15), (2, 17), (0, 20)) == [10, 12, 15]


def test_multiple_inputs_decreasing_give_nothing():
    valve = WatermarkValve(3)
    assert feed(valve, (0, 25), (1, 10), (2, 17)) == [None, None, 10]
    assert feed(valve, (0, 12), (1, 8), (2, 15)) == [None, None, None]


def test_multiple_inputs_status_toggling():
    valve = WatermarkValve(2)
    assert (valve.on_active(0), valve.on_active(1)) == (NOTHING, NOTHING)
    assert valve.on_idle(1) is NOTHING
    assert valve.on_idle(0) == IDLE
    assert (valve.on_idle(0), valve.on_idle(1)) == (NOTHING, NOTHING)
    assert valve.on_active(1) == ACTIVE
    assert valve.on_active(0) is NOTHING


def test_advances_with_partially_idle_channels():
    valve = WatermarkValve(3)
    assert feed(valve, (0, 15), (1, 10)) == [None, None]
    assert valve.on_idle(2) == ValveResult(10)
    assert feed(valve, (1, 18), (0, 20)) == [15, 18]


def test_advances_as_channels_become_idle_one_by_one():
    valve = WatermarkValve(3)
    assert feed(valve, (0, 25), (1, 10), (2, 17))[-1] == 10
    assert valve.on_idle(1) == ValveResult(17)
    assert valve.on_idle(2) == ValveResult(25)


def test_flushes_the_maximum_once_all_are_idle():
    valve = WatermarkValve(3)
    assert feed(valve, (0, 10), (1, 5), (2, 3))[-1] == 3
    assert (valve.on_idle(0), valve.on_idle(1)) == (NOTHING, NOTHING)
    assert valve.on_idle(2) == ValveResult(10, True)


def test_realigns_after_becoming_active():
    valve = WatermarkValve(3)
    assert feed(valve, (0, 10), (1, 7), (2, 3))[-1] == 3
    assert valve.on_idle(2) == ValveResult(7)
    assert valve.on_active(2) is NOTHING
    assert not valve.is_aligned(2)
    assert valve.on_watermark(2, 5) is None
    assert valve.channel_watermark(2) == 5
    assert valve.on_watermark(2, 9) is None
    assert valve.is_aligned(2)
    assert valve.on_watermark(1, 12) == 9


def test_no_output_when_all_active_channels_are_unaligned():
    valve = WatermarkValve(3)
    feed(valve, (0, 10), (1, 7))
    assert valve.on_idle(2) == ValveResult(7)
    assert valve.on_active(2) is NOTHING
    assert (valve.on_idle(0), valve.on_idle(1)) == (NOTHING, NOTHING)


def test_idle_before_any_watermark_says_only_idle():
    valve = WatermarkValve(2)
    assert valve.on_idle(0) is NOTHING
    assert valve.on_idle(1) == IDLE
    assert valve.watermark == MIN_TIME


def test_only_the_end_of_all_channels_is_the_end_of_time():
    valve = WatermarkValve(2)
    feed(valve, (0, 10), (1, 5))
    assert valve.on_watermark(1, MAX_TIME) == 10
    assert valve.on_end(1) is NOTHING
    assert valve.on_watermark(0, 20) == 20
    assert valve.on_end(0) == ValveResult(MAX_TIME)
    assert valve.on_end(0) is NOTHING


def test_an_ended_channel_beside_an_idle_one_does_not_end_time():
    valve = WatermarkValve(2)
    feed(valve, (0, 10), (1, 5))
    valve.on_idle(0)
    assert valve.on_watermark(1, MAX_TIME) == 10
    assert valve.on_end(1) == IDLE
    assert valve.on_active(0) == ACTIVE
    assert valve.on_watermark(0, 12) == 12


def test_the_end_reaches_an_idle_channel():
    valve = WatermarkValve(1)
    valve.on_idle(0)
    assert valve.on_watermark(0, MAX_TIME) == MAX_TIME
    assert not valve.idle


def test_an_added_channel_holds_the_output_until_it_speaks():
    valve = WatermarkValve(1)
    valve.on_watermark(0, 10)
    new = valve.add()
    assert feed(valve, (0, 20), (new, 5), (new, 15)) == [None, None, 15]


def test_removing_the_slowest_channel_releases_the_others():
    valve = WatermarkValve(0)
    slow, fast = valve.add(), valve.add()
    feed(valve, (slow, 1), (fast, 9))
    assert valve.remove(slow) == ValveResult(9)
    assert valve.remove(slow) is NOTHING
    assert valve.remove(fast) is NOTHING


def test_removing_the_last_active_channel_leaves_an_idle_output():
    valve = WatermarkValve(2)
    feed(valve, (0, 3), (1, 8))
    valve.on_idle(1)
    assert valve.remove(0) == ValveResult(8, True)


def test_the_heap_stays_small_while_one_channel_lags():
    valve = WatermarkValve(3)
    for time in range(1000):
        valve.on_watermark(0, time)
        valve.on_watermark(1, time)
    assert len(valve._heap) == 3
    assert valve.on_watermark(2, 500) == 500


class Model:
    """The rule, written without any data structure."""

    def __init__(self, n):
        self.marks, self.state, self.out, self.idle = [MIN_TIME] * n, ["aligned"] * n, MIN_TIME, False

    def minimum(self):
        aligned = [m for m, s in zip(self.marks, self.state) if s == "aligned"]
        if aligned and min(aligned) > self.out:
            self.out = min(aligned)
            return self.out
        return None

    def watermark(self, i, time):
        if self.state[i] == "idle" or time <= self.marks[i]:
            return None
        self.marks[i] = time
        if time >= self.out:
            self.state[i] = "aligned"
        return self.minimum()

    def go_idle(self, i):
        if self.state[i] == "idle":
            return NOTHING
        held = self.state[i] == "aligned" and self.marks[i] == self.out
        self.state[i] = "idle"
        if all(s == "idle" for s in self.state):
            grown = max(self.marks) if held and max(self.marks) > self.out else None
            self.out, self.idle = max(self.out, grown or self.out), True
            return ValveResult(grown, True)
        grown = self.minimum() if held else None
        return NOTHING if grown is None else ValveResult(grown)

    def go_active(self, i):
        if self.state[i] != "idle":
            return NOTHING
        self.state[i] = "aligned" if self.marks[i] >= self.out else "behind"
        was, self.idle = self.idle, False
        return ACTIVE if was else NOTHING


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from("wwwia"), st.integers(0, 3), st.integers(1, 30)), max_size=60),
)
def test_agrees_with_the_rule_and_never_goes_backwards(n, events):
    valve, model = WatermarkValve(n), Model(n)
    last = MIN_TIME
    for kind, channel, time in events:
        i = channel % n
        if kind == "w":
            assert valve.on_watermark(i, time) == model.watermark(i, time)
        elif kind == "i":
            assert valve.on_idle(i) == model.go_idle(i)
        else:
            assert valve.on_active(i) == model.go_active(i)
        assert valve.watermark >= last
        assert (valve.watermark, valve.idle) == (model.out, model.idle)
        last = valve.watermark
