"""Which windows of one key have grown together, and where their contents lie.

The mapping goes from each current window to its *state window*: the window under which the contents
were first stored.  When windows merge, the result keeps the state window of one of them, so that
only the contents of the others move.  The mapping of each key is keyed state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Generic, TypeVar

from penstock.operators.window.assigners import MergingWindowAssigner
from penstock.operators.window.windows import Window

W = TypeVar("W", bound=Window)

OnMerge = Callable[[W, list[W], W, list[W]], None]
"""Called with the merged window, the windows it replaces, its state window, and the state windows
whose contents must move there."""


class _Decisions(MergingWindowAssigner.MergeCallback[W]):
    """Notes what the assigner wants merged; carried out after it has looked at all windows."""

    def __init__(self) -> None:
        self.merges: list[tuple[W, list[W]]] = []

    def merge(self, to_be_merged: Collection[W], merge_result: W) -> None:
        self.merges.append((merge_result, list(dict.fromkeys(to_be_merged))))


class MergingWindowSet(Generic[W]):
    """The windows of one key, over a mapping that it changes in place."""

    def __init__(self, assigner: MergingWindowAssigner[object, W], mapping: dict[W, W]) -> None:
        self._assigner = assigner
        self.mapping = mapping

    def state_window(self, window: W) -> W | None:
        """Where the contents of ``window`` lie; ``None`` if there is no such window."""
        return self.mapping.get(window)

    def retire(self, window: W) -> None:
        """Forget ``window``."""
        if window not in self.mapping:
            raise LookupError(f"{window!r} is not a window of this key")
        del self.mapping[window]

    def add(self, new_window: W, on_merge: OnMerge[W]) -> W:
        """Take ``new_window`` in, merging as the assigner says; answers the window it became part of.

        ``new_window`` itself is never among the replaced ones: it holds no contents yet.
        """
        mapping = self.mapping
        if new_window in mapping:
            return new_window
        if not mapping:
            mapping[new_window] = new_window
            return new_window
        decisions: _Decisions[W] = _Decisions()
        self._assigner.merge_windows([*mapping, new_window], decisions)
        result = None
        for merged, replaced in decisions.merges:
            if new_window in replaced:
                replaced.remove(new_window)
                result = merged
            self._replace(merged, replaced, on_merge)
        if result is None:
            mapping[new_window] = new_window
            result = new_window
        return result

    def _replace(self, merged: W, replaced: list[W], on_merge: OnMerge[W]) -> None:
        """Let ``merged`` take the place of ``replaced``, which are windows of the mapping."""
        state_windows = [self.mapping.pop(window) for window in replaced]
        if not state_windows:
            self.mapping[merged] = merged
            return
        kept, *moved = state_windows
        self.mapping[merged] = kept
        if replaced != [merged]:
            on_merge(merged, [w for w in replaced if w != merged], kept, moved)
