"""The one place that says which release this is."""

__version__ = "0.11.0"
