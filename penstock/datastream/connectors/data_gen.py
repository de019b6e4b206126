"""The data generator source. PyFlink has none; the name is that of Flink's Java class."""

from penstock.connectors.builtin.datagen import DataGeneratorSource

__all__ = ["DataGeneratorSource"]
