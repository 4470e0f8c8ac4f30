"""What the nodes of a desk share: its company, and the live objects of the graph."""

from dataclasses import dataclass, field

from ...state.company import Company
from ..parts import Parts


@dataclass(frozen=True)
class Desk:
    """A desk.

    Attributes:
        parts: The graph's live objects.
        company: Whose desk it is.
    """

    parts: Parts
    company: Company = field(default_factory=Company)
