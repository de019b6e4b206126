"""How much of a keyed exchange is held, sorted and handed on at a time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of a sender, which sorts and cuts into pieces, and of a reader, which merges them."""

    sorted_rows: int = 131072
    """Records that a sender sorts together."""
    sorted_bytes: int = 16 << 20
    """Or so many bytes, about."""
    pieces: int = 256
    """What was sorted is cut into so many: the more, the less a reader holds, and the more they cost."""
    piece_rows: int = 128
    """But a piece has so many records if there are."""
    piece_bytes: int = 256 << 10
    """And not many more bytes than this, as far as the mean of its records says."""
    most_bytes: int = 4 << 20
    """A piece that turns out larger is cut."""
    ready_rows: int = 16384
    """Records that a reader sorts together if there are so many. A round ends with the key they end in."""
    ready_bytes: int = 8 << 20
    """Or so many bytes."""
    certain_rows: int = 256
    """Those of a round where its end must not depend on bytes, which are an estimate."""
    open_bytes: int = 16 << 20
    """What must wait is written to a file if it is more than this."""
    block_bytes: int = 256 << 10
    """What is read of a file at once."""

    def rows_of(self, row_bytes: int) -> int:
        """Records of a round, if they take so many bytes each."""
        return max(1, min(self.ready_rows, self.ready_bytes // row_bytes))

    @classmethod
    def few(cls, rows: int) -> Sizes:
        """So small that little input has everything happen that can: many pieces, cut keys, files."""
        return cls(
            sorted_rows=16 * rows,
            piece_rows=4 * rows,
            ready_rows=rows,
            ready_bytes=64 * rows,
            certain_rows=rows,
            open_bytes=256 * rows,
            block_bytes=256 * rows,
        )
