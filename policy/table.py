"""A company's policy as operators have it: read from a file, given to a graph, told as articles."""

from dataclasses import dataclass
from pathlib import Path

from ..text.sentences import ENGLISH
from .articles import build_articles
from .rules import Rules


@dataclass(frozen=True, kw_only=True)
class PolicyTable(Rules):
    """Rules that were read from a company's file. Give it to any graph as `policy=`.

    Calls of a tool that the file does not name and that changes something, or does not declare that
    it only reads, are forbidden.
    """

    @classmethod
    def read(cls, path: str | Path) -> "PolicyTable":
        """Read a policy from its YAML file, and prove it.

        Raises:
            SettingsError: The file cannot be read, says something wrong, or a cell of a table has
                no row or several; the message names the place and what to do.
        """
        from .file import read_rules  # noqa: PLC0415 - YAML is for those who have such files

        return cls(**vars(read_rules(Path(path))))

    def articles(self, language: str = ENGLISH) -> list[dict[str, str]]:
        """The policy for a knowledge base, made of the rows that decide: id, title, text, language.

        Args:
            language: `en` or `zh`; a row that lacks it is told in another one.
        """
        return build_articles(self, language)
