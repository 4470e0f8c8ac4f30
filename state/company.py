"""Whose desk it is: what a company says of itself, and by what it decides. Read from files."""

from pydantic import BaseModel, ConfigDict, Field


class Company(BaseModel):
    """A company, as its files describe it; see `prompts/company.py`.

    Attributes:
        name: As customers know it.
        about: Business, products and tone, for the prompts.
        sensitive: Words and phrases of topics that go to a human at once.
        verified_by: The tool that verifies who a customer is.
        enough: The least score of an article that may carry an answer.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""
    about: str = ""
    sensitive: tuple[str, ...] = ()
    verified_by: str = "verify_identity"
    enough: float = Field(default=0.0, ge=0)
