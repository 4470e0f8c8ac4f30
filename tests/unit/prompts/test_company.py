"""A company is files: two of them are shipped as examples, and a wrong one is named."""

from pathlib import Path

import pytest

from loopwright import build_customer_service
from loopwright.policy.desk.company import Company
from loopwright.prompts.company import read_company
from loopwright.state.errors import SettingsError

SHOPS = Path(__file__).parents[3] / "examples" / "shop"


def test_two_companies_differ_by_their_files_only():
    lumen, tea = (read_company(SHOPS / name) for name in ("lumen", "yunling"))
    assert (lumen.languages[0], tea.languages[0]) == ("en", "zh")
    assert lumen.find_words("greeting", "zh") != tea.find_words("greeting", "zh")
    assert tea.find_words("goodbye", "fr") == tea.find_words("goodbye", "zh"), "its own language"
    assert not set(lumen.sensitive) & set(tea.sensitive)
    for said in (lumen.name, lumen.about.strip(), lumen.tone):
        assert said in lumen.render_profile()
    assert "electric shock" not in lumen.render_profile()
    for company in (lumen, tea):
        assert company.find_words("greeting", "en")
        assert {path.stem for path in Path(company.folder).glob("knowledge/*")} == set(
            company.bases
        )
    assert Company().render_profile() == ""
    assert Company().find_words("greeting", "en") == ""


WRONG = {
    "": "has no name",
    "- a": "has no name",
    "name: [": "is no YAML",
    "name: A\nsensitiv: [fire]": "has no key 'sensitiv': did you mean 'sensitive'?",
    "name: A\ncolour: red": "has no key 'colour': there are: name,",
    "name: A\nsensitive: ['']": "sensitive.0: String should have at least 2 characters",
    "name: A\nsensitive: [no]": "sensitive.0: Input should be a valid string",
    "name: A\nsensitive: fire": "sensitive: Input should be a valid tuple",
    "name: A\nlanguages: []": "languages:",
    "name: A\nlanguages: [English]": "languages.0:",
    "name: A\nenough: much": "enough: Input should be a valid number",
    "name: A\nenough: -1": "enough:",
    "name: A\narticles: {headline: title}": "articles.headline: there is no such key, but list, id",
    "name: A\narticles: {id: 5}": "articles.id: Input should be a valid string",
    "name: A\ngreeting: Hello": "greeting: Input should be a valid dictionary",
    "name: 5": "name: Input should be a valid string",
    "name: A\nverified_by: ''": "verified_by:",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_company_is_told_in_one_sentence(text, tmp_path):
    (tmp_path / "company.yaml").write_text(text)
    with pytest.raises(SettingsError) as wrong:
        build_customer_service(company=tmp_path)
    said = str(wrong.value)
    assert str(tmp_path / "company.yaml") in said
    assert WRONG[text] in said
    assert "\n" not in said
