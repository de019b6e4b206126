"""The public test kit: run programs without Spark, and conformance suites for connectors."""
