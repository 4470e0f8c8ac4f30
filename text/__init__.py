"""Pure helpers for texts and JSON: canonical form, sections, words, secrets, units."""
