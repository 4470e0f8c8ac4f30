"""Rules of a support desk: claims, figures, consent and hours; pure."""
