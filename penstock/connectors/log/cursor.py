"""A place in a partition that moves over frames, from segment to segment, as the partition grows.

Takes no lock, except for one moment before it calls a file damaged: then no writer may be in the
middle of something.  If one is, the verdict waits for the next call.
"""

from __future__ import annotations

from pathlib import Path

from penstock.connectors.log.files import if_unlocked
from penstock.connectors.log.segment import Frame, SegmentFile, segment_bases, segment_path


class Cursor:
    """Walks the frames of a partition.

    ``payload`` says whether a frame's payload is read and verified, or only its header.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._segment: SegmentFile | None = None
        self._position = 0
        self._known_torn = (-1, -1)
        self.offset = 0
        """Offset of the first record of the next frame."""

    def close(self) -> None:
        """Close the file."""
        if self._segment is not None:
            self._segment.close()
        self._segment = None

    @property
    def segment(self) -> SegmentFile:
        """The segment the cursor is in; there is one as soon as a frame was seen."""
        assert self._segment is not None
        return self._segment

    def jump(self, base: int) -> bool:
        """Go to the start of the segment at ``base``; ``False``, without moving, if it is not there."""
        try:
            segment = SegmentFile(self._directory, base)
        except FileNotFoundError:
            return False
        self.close()
        self._segment = segment
        self._position = 0
        self.offset = base
        return True

    def jump_to_start(self) -> None:
        """Go to the oldest record that is left."""
        while (bases := segment_bases(self._directory)) and not self.jump(bases[0]):
            pass

    def is_lost(self) -> bool:
        """Whether retention has deleted what comes next."""
        if self._segment is None:
            return min(segment_bases(self._directory), default=0) > self.offset
        return self._segment.deleted() and self.peek(payload=False) is None

    def next(self, payload: bool) -> Frame | None:
        """The next frame, moving past it; ``None`` at the end of what is there."""
        frame = self.peek(payload)
        if frame is not None:
            self._position = frame.end
            self.offset = frame.header.next_offset
        return frame

    def peek(self, payload: bool) -> Frame | None:
        """The next frame, without moving past it, though into the segment it is in."""
        if self._segment is None and not self.jump(self.offset):
            return None
        frame = self._here(payload)
        if frame is None and self.offset > self.segment.base:
            # Asked in this order: once a next segment exists, this one is complete.
            following = segment_path(self._directory, self.offset).exists()
            frame = self._here(payload)
            if frame is None and following:
                self._check_damage()
                frame = self._here(payload) if self.jump(self.offset) else None
        if frame is None:
            self._check_damage()
        return frame

    def _here(self, payload: bool) -> Frame | None:
        frame = self.segment.frame_at(self._position, payload)
        if frame is not None and frame.header.base_offset != self.offset:
            raise self.segment.damage(self._position)
        return frame

    def _check_damage(self) -> None:
        segment, position = self.segment, self._position
        seen = (position, segment.size())
        if position >= seen[1] or seen == self._known_torn or segment.deleted():
            return
        with if_unlocked(self._directory) as stable:
            if not stable or segment.frame_at(position, payload=True) is not None:
                return
            sealed = max(segment_bases(self._directory), default=0) > segment.base
            if segment.is_damaged(position, sealed):
                raise segment.damage(position)
        self._known_torn = seen
