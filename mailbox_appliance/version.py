"""The version of this release. No other module defines it."""

__version__ = "0.11.0"
