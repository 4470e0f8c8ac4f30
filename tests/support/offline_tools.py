"""Small invented tools of several kinds, each with its spec and what it does."""

import json
from collections.abc import Callable, Mapping
from typing import Any

Property = dict[str, Any]


def spec(name: str, description: str, /, *required: str, **properties: Property) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def text(description: str = "", **more: Any) -> Property:
    return {"type": "string", "description": description, **more}


Tools = Mapping[str, tuple[dict[str, Any], Callable[..., str]]]

WEATHER: Tools = {
    "forecast_get": (
        spec(
            "forecast_get",
            "Get the weather forecast for a city.",
            "city",
            city=text("City name"),
            unit=text("Unit of the temperature", enum=["celsius", "fahrenheit"]),
            days={"type": "integer", "description": "How many days ahead", "default": 1},
        ),
        lambda city, unit="celsius", days=1: f"{city}: 7 degrees {unit}, rain for {days} day(s)",
    ),
}
CALENDAR: Tools = {
    "calendar_create_event": (
        spec(
            "calendar_create_event",
            "Create an event in the calendar.",
            "title",
            "date",
            title=text("Title of the event"),
            date=text("Day of the event", format="date"),
            time=text("Start as HH:MM"),
        ),
        lambda **event: f"Created event {json.dumps(event)}",
    ),
    "calendar_list_events": (
        spec(
            "calendar_list_events",
            "List the events of one day.",
            "date",
            date=text("Day", format="date"),
        ),
        lambda date: f"{date} 09:00 Stand-up\n{date} 14:00 Budget review with Priya Nair",
    ),
}
STOCK = {"A-100": 12, "B-220": 0}


def stock_of(sku: str) -> str:
    if sku not in STOCK:
        msg = f"unknown sku {sku!r}; did you mean one of: 'A-100', 'B-220'?"
        raise ValueError(msg)
    return json.dumps({"sku": sku, "quantity": STOCK[sku]})


INVENTORY: Tools = {
    "check_stock": (
        spec(
            "check_stock",
            "Check how many items of one product are in stock.",
            "sku",
            sku=text("Product code, e.g. 'X-999'"),
        ),
        stock_of,
    ),
}
CUSTOMERS: Tools = {
    "find_customer": (
        spec(
            "find_customer",
            "Find a customer by name.",
            "name",
            name=text("Full or last name"),
        ),
        lambda name: json.dumps([{"id": "C-17", "name": "Ann Lee", "city": "Leeds"}]),
    ),
    "list_orders": (
        spec(
            "list_orders",
            "List the orders of a customer.",
            "customer_id",
            customer_id=text("Id of the customer"),
        ),
        lambda customer_id: {"C-17": "O-1 tea 9.50\nO-2 cups 20.00"}[customer_id],
    ),
}
FILES = {
    "docs/notes.md": "# Notes\nThe returns policy is owned by Maria Schmidt.\nShips on Monday."
}


def open_document(path: str) -> str:
    if path not in FILES:
        msg = f"{path} does not exist"
        raise ValueError(msg)
    return FILES[path]


DOCUMENTS: Tools = {
    "browse_folder": (
        spec("browse_folder", "List the files of a folder.", "path", path=text("Folder")),
        lambda path: "notes.md (70 bytes)\nletter.txt (3 bytes)",
    ),
    "open_document": (
        spec("open_document", "Read one text file.", "path", path=text("Path of the file")),
        open_document,
    ),
    "store_document": (
        spec(
            "store_document",
            "Write a text file.",
            "path",
            "content",
            path=text("Path of the file"),
            content=text("The text"),
        ),
        lambda path, content: f"wrote {len(content)} characters to {path}",
    ),
}
QUERIES: Tools = {
    "run_query": (
        spec("run_query", "Execute a SELECT query.", "query", query=text("SQL to run")),
        lambda query: "[{'total': 3}]",
    ),
    "show_tables": (spec("show_tables", "List all tables."), lambda: "customers\norders"),
    "table_info": (
        spec("table_info", "Describe the columns of a table.", "table", table=text("Table name")),
        lambda table: f"columns of {table}: id integer, email text",
    ),
}
