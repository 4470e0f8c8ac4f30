"""The `loopwright` command."""

from .app import app

__all__ = ["app"]
