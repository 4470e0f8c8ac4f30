"""A company's policy as a table: read from a file, proven, and looked up."""
