"""PyFlink's ``common.serializer``: bytes of single values, on a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import BinaryIO, Generic, TypeVar

__all__ = ["TypeSerializer"]

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes and reads values one after the other. Two of one class are taken to be equal.

    >>> class Flag(TypeSerializer[bool]):
    ...     def serialize(self, element, stream):
    ...         stream.write(b"y" if element else b"n")
    ...     def deserialize(self, stream):
    ...         return stream.read(1) == b"y"
    >>> Flag() == Flag()
    True

    ``deserialize`` must read exactly what ``serialize`` wrote and not a byte more.
    """

    @abstractmethod
    def serialize(self, element: T, stream: BinaryIO) -> None:
        """Write one value."""

    @abstractmethod
    def deserialize(self, stream: BinaryIO) -> T:
        """Read one value."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(type(self))


class VoidNamespaceSerializer(TypeSerializer[bytes]):
    """Writes nothing: for state without a namespace."""

    def serialize(self, element: bytes, stream: BinaryIO) -> None:
        """Write nothing."""

    def deserialize(self, stream: BinaryIO) -> bytes:
        """Read nothing."""
        return b""
