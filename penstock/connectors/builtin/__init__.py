"""Sources and sinks that need nothing outside the job: collections, generated data, print, collect."""
