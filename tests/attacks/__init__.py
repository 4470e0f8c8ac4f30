"""Prompt-injection cases, written without sight of the code they test."""
