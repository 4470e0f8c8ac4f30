"""The one path by which a tool call runs, file by file in reading order."""
