"""What an agent still sees of a long history, and how it reads the rest."""
