"""Whose desk it is: what a company says of itself, its opening hours, by what it decides."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, time, timedelta
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, field_validator

from ...text.words import fold_case
from .articles import ArticleFields

_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS: Final = re.compile(r"(\w{3})(?:-(\w{3}))? (\d\d:\d\d)-(\d\d:\d\d)")


def find_hours_problem(hours: str) -> str:
    """Why a line cannot be read; "" where it can."""
    try:
        days, opens, closes = _parse_hours(hours)
    except ValueError:
        return (
            f"{hours!r} is no opening time: write it as 'mon-fri 09:00-17:30' or 'sat 10:00-14:00'"
        )
    if not days or opens >= closes:
        return f"{hours!r} is never open: days and times go forwards, and a day ends at 23:59"
    return ""


def is_open(hours: Sequence[str], at: datetime) -> bool:
    """Whether somebody is there at a time; always, where no hours are given."""
    if not hours:
        return True
    read = map(_parse_hours, hours)
    return any(at.weekday() in days and opens <= at.time() < ends for days, opens, ends in read)


def find_next_opening(hours: Sequence[str], at: datetime) -> datetime:
    """When the desk is open next; the time itself where it is open."""
    if is_open(hours, at):
        return at
    begins = [
        datetime.combine((at + timedelta(days=ahead)).date(), opens, at.tzinfo)
        for ahead in range(8)
        for days, opens, _ in map(_parse_hours, hours)
        if (at + timedelta(days=ahead)).weekday() in days
    ]
    return min(begin for begin in begins if begin > at)


def _parse_hours(hours: str) -> tuple[range, time, time]:
    found = _HOURS.fullmatch(hours.strip().lower())
    if found is None:
        raise ValueError(hours)
    first, last, opens, closes = found.groups()
    days = range(_DAYS.index(first), _DAYS.index(last or first) + 1)
    return days, time.fromisoformat(opens), time.fromisoformat(closes)


def _compile_phrase(phrase: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, phrase.split()))
    return re.compile(rf"(?<![a-z0-9]){words}(?![a-z0-9])")


COMPANY_FILE: Final = "company.yaml"

_Phrase = Annotated[str, StringConstraints(strip_whitespace=True, min_length=2)]
"""A shorter one stands in every message."""
_Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}$")]


class Company(BaseModel):
    """A company, as its files describe it; see `prompts/company.py`.

    Attributes:
        name: As customers know it.
        about: Business and products, for the prompts.
        tone: How it speaks to customers, for the prompts.
        languages: That it speaks; the first where a customer's is not known.
        sensitive: Words and phrases of topics that go to a human at once.
        greeting: What a customer is met with, by language.
        goodbye: The last words to a customer, by language.
        bases: Knowledge bases that are searched; all where none is named.
        enough: The least score of an article that may carry an answer.
        articles: What results of searches call the parts of an article.
        verified_by: The tool that verifies who a customer is; several with spaces between them.
        verified_if: The field of its answer that is true then.
        verified_as: The field that says who it is. A policy's table says all three itself.
        tickets_by: The tool that makes a ticket.
        ticket_as: The field of its answer that is the ticket's number.
        handed_over_by: The tool that puts a case into the queue of the humans.
        hours: When a human is at the desk, such as `mon-fri 09:00-17:30`; always without any.
        timezone: Of these hours.
        follow_up_hours: When a customer hears of a ticket, where no hours say it.
        folder: Where it was read from.
        proofread: A model judges each reply before the customer gets it.
        proposal_minutes: How long a question for a yes may be answered.
        records: The MCP servers whose fields count as records; all where none is named. What other
            servers give goes into a change only if a colleague agrees.
        policy: Its policy's file, where the folder has one: it holds unless another is given.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = ""
    about: str = ""
    tone: str = ""
    languages: tuple[_Language, ...] = Field(default=("en", "zh"), min_length=1)
    sensitive: tuple[_Phrase, ...] = ()
    greeting: Mapping[_Language, _Name] = Field(default_factory=dict)
    goodbye: Mapping[_Language, _Name] = Field(default_factory=dict)
    bases: tuple[_Name, ...] = ()
    enough: float = Field(default=0.0, ge=0)
    articles: ArticleFields = Field(default_factory=ArticleFields)
    verified_by: _Name = "verify_identity"
    verified_if: _Name = "verified"
    verified_as: _Name = "customer_id"
    tickets_by: _Name = "create_ticket"
    ticket_as: _Name = "ticket_id"
    handed_over_by: _Name = "transfer_to_human"
    records: tuple[_Name, ...] = ()
    hours: tuple[str, ...] = ()
    timezone: str = "UTC"
    follow_up_hours: int = Field(default=24, ge=1, le=720)
    proofread: bool = True
    proposal_minutes: int = Field(default=30, ge=1, le=10_080)
    folder: str = ""
    policy: str = ""

    @field_validator("hours")
    @classmethod
    def _check_hours(cls, hours: tuple[str, ...]) -> tuple[str, ...]:
        if wrong := "; ".join(filter(None, map(find_hours_problem, hours))):
            raise ValueError(wrong)
        return hours

    @field_validator("timezone")
    @classmethod
    def _check_timezone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError) as error:
            msg = f"{name!r} is no time zone: write one such as Europe/Berlin"
            raise ValueError(msg) from error
        return name

    def render_profile(self) -> str:
        """What models are told of it, in its own words."""
        said = (text.strip() for text in (self.name, self.about, self.tone))
        return "\n\n".join(filter(None, said))

    def names_sensitive(self, text: str) -> bool:
        """Whether one of its sensitive phrases stands in the text, as whole words."""
        low = fold_case(text)
        return any(_compile_phrase(one.casefold()).search(low) for one in self.sensitive)

    def find_words(self, which: Literal["greeting", "goodbye"], language: str) -> str:
        """The text in a language, else in the company's language; "" without one."""
        said: Mapping[str, str] = self.greeting if which == "greeting" else self.goodbye
        return said.get(language) or said.get(self.languages[0], "")
