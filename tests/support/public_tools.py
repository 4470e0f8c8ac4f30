"""What public MCP servers offer, as facts: the names of their tools and arguments, in our words."""

from typing import Any

from langchain_core.tools import StructuredTool

GITHUB = {
    "create_or_update_file": ("Write one file of a repository.", "owner repo path content message"),
    "search_repositories": ("Search repositories.", "query page"),
    "create_repository": ("Create a repository of your own.", "name description private"),
    "get_file_contents": ("Get a file or directory of a repository.", "owner repo path branch"),
    "push_files": ("Push several files in one commit.", "owner repo branch files message"),
    "create_issue": ("Create an issue.", "owner repo title body labels"),
    "create_pull_request": ("Create a pull request.", "owner repo title head base"),
    "fork_repository": ("Fork a repository to your account.", "owner repo organization"),
    "create_branch": ("Create a branch.", "owner repo branch from_branch"),
    "list_commits": ("List the commits of a branch.", "owner repo sha page"),
    "list_issues": ("List issues, filtered.", "owner repo state labels"),
    "update_issue": ("Update an issue.", "owner repo issue_number state title"),
    "add_issue_comment": ("Comment on an issue.", "owner repo issue_number body"),
    "search_code": ("Search code in all repositories.", "q order page"),
    "search_issues": ("Search issues and pull requests.", "q order page"),
    "search_users": ("Search users.", "q order page"),
    "get_issue": ("Get one issue.", "owner repo issue_number"),
    "get_pull_request": ("Get one pull request.", "owner repo pull_number"),
    "list_pull_requests": ("List pull requests, filtered.", "owner repo state head base"),
    "create_pull_request_review": ("Review a pull request.", "owner repo pull_number event body"),
    "merge_pull_request": ("Merge a pull request.", "owner repo pull_number merge_method"),
    "get_pull_request_files": ("List the files a pull request changes.", "owner repo pull_number"),
    "get_pull_request_status": ("Get the checks of a pull request.", "owner repo pull_number"),
    "update_pull_request_branch": ("Bring in the newest base.", "owner repo pull_number"),
    "get_pull_request_comments": ("Get the review comments.", "owner repo pull_number"),
    "get_pull_request_reviews": ("Get the reviews.", "owner repo pull_number"),
}
FILES = {
    "read_text_file": ("Read a file as text.", "path head tail"),
    "read_media_file": ("Read an image or a sound.", "path"),
    "read_multiple_files": ("Read several files at once.", "paths"),
    "write_file": ("Create a file, or overwrite it.", "path content"),
    "edit_file": ("Replace lines of a text file.", "path edits dryRun"),
    "create_directory": ("Create a directory.", "path"),
    "list_directory": ("List the files and directories in one.", "path"),
    "list_directory_with_sizes": ("List them with their sizes.", "path sortBy"),
    "directory_tree": ("Get the tree of directories as JSON.", "path excludePatterns"),
    "move_file": ("Move or rename a file or directory.", "source destination"),
    "search_files": ("Find files by a pattern.", "path pattern excludePatterns"),
    "get_file_info": ("Get size, times and permissions of a file.", "path"),
    "list_allowed_directories": ("List the directories that may be accessed.", ""),
}

# What somebody wants, and the tool for it.
QUESTIONS = {
    "Open an issue about the broken login": "create_issue",
    "Open a ticket that says the login fails": "create_issue",
    "Close issue 12": "update_issue",
    "Write a comment on issue 7 that I am on it": "add_issue_comment",
    "Which pull requests are open in octo/hello?": "list_pull_requests",
    "Merge pull request 34": "merge_pull_request",
    "Did the checks of pull request 5 pass?": "get_pull_request_status",
    "Which files does pull request 5 change?": "get_pull_request_files",
    "Fork the repository octo/hello to my account": "fork_repository",
    "Where in the code is the function parse_config used?": "search_code",
    "Find the user whose name is Ada": "search_users",
    "Push these three files in one commit": "push_files",
    "list the commits of branch main": "list_commits",
    "Create a repository named demo": "create_repository",
    "createBranch": "create_branch",
    "Rename notes.txt to old-notes.txt": "move_file",
    "Make a folder called reports": "create_directory",
    "What is in the folder src?": "list_directory",
    "How big are the files in this directory?": "list_directory_with_sizes",
    "Replace the line with the version number": "edit_file",
    "Save this text in a file": "write_file",
    "Find all files that fit a pattern": "search_files",
    "When was this file changed, and with which permissions?": "get_file_info",
    "Show me the picture logo.png": "read_media_file",
    "Which directories may you access?": "list_allowed_directories",
}


def many(count: int, record: list[Any] | None = None) -> list[StructuredTool]:
    """So many tools: these, and others of an office, none of which fits what is asked."""
    offered = dict(GITHUB | FILES)
    verbs, things = ["approve", "assign", "export", "print", "schedule"], _things()
    for number in range(count - len(offered)):
        verb, thing = verbs[number % 5], things[number // 5]
        offered[f"{verb}_{thing}"] = (f"{verb.title()} a {thing} of the office.", "id note")
    return [_tool(name, *about, record) for name, about in [*offered.items()][:count]]


def _things() -> list[str]:
    kinds = ["invoice", "voucher", "badge", "desk", "visitor", "shift", "parcel", "locker"]
    return [f"{kind}_{floor}" for floor in "abcdefgh" for kind in kinds]


def _tool(name: str, about: str, arguments: str, record: list[Any] | None) -> StructuredTool:
    async def run(**given: Any) -> str:
        if record is not None:
            record.append((name, given))
        return f"{name} is done"

    names = arguments.split()
    properties = {one: {"type": "string", "description": f"The {one}."} for one in names}
    schema = {"type": "object", "properties": properties, "required": names[:2]}
    return StructuredTool(name=name, description=about, args_schema=schema, coroutine=run)
