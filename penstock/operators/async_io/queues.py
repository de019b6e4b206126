"""Which results may be emitted, given which requests are answered.

Both queues take requests and marks (watermarks, idleness) in the order of the input and give back what
may go out.  A mark never overtakes a request in front of it, and no result overtakes a mark: in the
unordered queue, results change places only between two marks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Any

from penstock.core.ids import EventTime


class Request:
    """One record that a question was, or will be, asked about."""

    __slots__ = ("done", "error", "result", "segment", "time", "value")

    def __init__(self, value: Any, time: int) -> None:
        self.value = value
        self.time = time
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.segment: Segment | None = None


class Mark:
    """A watermark, or a change between idle and active, at its place among the records."""

    __slots__ = ("idle", "watermark")

    def __init__(self, watermark: EventTime | None = None, idle: bool | None = None) -> None:
        self.watermark = watermark
        self.idle = idle


class Segment:
    """The requests between two marks: those without an answer, and answered ones not yet emitted."""

    __slots__ = ("answered", "open")

    def __init__(self) -> None:
        self.open: dict[int, Request] = {}
        self.answered: list[Request] = []


class RequestQueue(ABC):
    """Requests and marks in order of the input."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()

    def add(self, item: Request | Mark) -> None:
        """Put an item at the end; of watermarks that follow each other the last will do."""
        last = self._items[-1] if self._items else None
        if isinstance(item, Request):
            self._add_request(item, last)
            return
        if item.watermark is not None and isinstance(last, Mark) and last.watermark is not None:
            self._items.pop()
        self._items.append(item)

    @abstractmethod
    def _add_request(self, request: Request, last: Any) -> None:
        """Put a request behind the item that was added last."""

    def answered(self, request: Request) -> None:
        """``request`` has got its answer, or has failed."""
        request.done = True

    @abstractmethod
    def take(self) -> Iterator[Request | Mark]:
        """Remove and give what may go out now, in the order in which it must."""

    @abstractmethod
    def requests(self) -> list[Request]:
        """All requests that were not taken, in order of the input where that matters."""

    def is_empty(self) -> bool:
        """Whether nothing is inside, not even a mark."""
        return not self._items


class OrderedQueue(RequestQueue):
    """Results come out in the order of the records."""

    def _add_request(self, request: Request, last: Any) -> None:
        self._items.append(request)

    def take(self) -> Iterator[Request | Mark]:
        items = self._items
        while items:
            first = items[0]
            if isinstance(first, Request) and not first.done:
                return
            yield items.popleft()

    def requests(self) -> list[Request]:
        return [item for item in self._items if isinstance(item, Request)]


class UnorderedQueue(RequestQueue):
    """Results come out as they arrive, but stay between the marks they were between."""

    def _add_request(self, request: Request, last: Any) -> None:
        if not isinstance(last, Segment):
            last = Segment()
            self._items.append(last)
        request.segment = last
        last.open[id(request)] = request

    def answered(self, request: Request) -> None:
        super().answered(request)
        segment = request.segment
        assert segment is not None
        del segment.open[id(request)]
        segment.answered.append(request)

    def take(self) -> Iterator[Request | Mark]:
        items = self._items
        while items:
            first = items[0]
            if isinstance(first, Segment):
                ready, first.answered = first.answered, []
                yield from ready
                if first.open:
                    return
                items.popleft()
            else:
                items.popleft()
                yield first

    def requests(self) -> list[Request]:
        segments = [item for item in self._items if isinstance(item, Segment)]
        return [request for each in segments for request in (*each.answered, *each.open.values())]
