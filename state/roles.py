"""Roles: who a model is asked as."""

from typing import Final

ROLE_METADATA: Final = "loopwright_role"
"""Key of the role in the metadata of a model call's config; a chat model reads it there."""
