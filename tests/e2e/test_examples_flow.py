"""The worked examples of prompt_flow do what they say: what counts is the world they leave."""

import asyncio
import contextlib
import os
import re
import struct
import threading
import time
from functools import partial

import pytest
from langgraph.types import Command
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from loopwright import Context, ScriptedModel, build_prompt_flow, open_durability
from support import forked
from support.flow_examples import (
    EXAMPLES,
    left_running,
    module,
    revenue,
    rows,
    server,
    shop as new_shop,
)  # fmt: skip
from support.patience import PATIENCE

CASE = {"configurable": {"thread_id": "case"}}


def ran(example, folder, environ, *args, said=""):
    """Run an example with its files in folder/out: its exit code, and what it printed."""
    with contextlib.chdir(folder):
        process = forked.Command(
            forked.server(), ("--out", str(folder / "out"), *args), stdin=said, env=environ,
            script=EXAMPLES / example / "run.py",
        )  # fmt: skip
    with process:
        code, (told, wrong) = process.wait(PATIENCE), process.said()
    assert wrong == ""
    patient = time.monotonic() + PATIENCE
    while left := left_running(folder):  # its server may take a moment to be gone
        assert time.monotonic() < patient, left
        time.sleep(0.1)
    return code, told


@pytest.fixture
def run(environment, tmp_path):
    return partial(ran, "refund", tmp_path, environment)


# ---- sales


@pytest.fixture(scope="module")
def analysed(environment, tmp_path_factory):
    """What the sales example printed, and the folder it has written into."""
    folder = tmp_path_factory.mktemp("sales")
    code, said = ran("sales", folder, environment)
    assert code == 0, said
    assert "\nComplete.\n" in said
    return said, folder / "out"


@pytest.mark.req("S2-39", "S2-37", "S2-38", "S2-18")
def test_the_sales_report_holds_the_numbers_of_the_file(analysed):
    said, out = analysed
    report = (out / "report.md").read_text(encoding="utf-8")
    by_month = revenue(out / "sales.csv", "date", 7)
    total = f"{sum(by_month.values()):,.2f}"
    assert f"was {total}." in report
    assert f"was {total}. [analysis]" in said, "the answer cites the step it comes from"
    for key in ("region", "product"):
        for name, amount in revenue(out / "sales.csv", key).items():
            assert re.search(rf"\| {name} \| \d+ \| {amount:,.2f} \|", report)
    for year in ("2024", "2025"):
        months = {m: amount for m, amount in by_month.items() if m.startswith(year)}
        for word, best in (("most", max), ("least", min)):
            month = best(months, key=lambda m: months[m])
            assert f"{word} in {month} ({months[month]:,.2f})" in report


@pytest.mark.req("S2-39")
def test_the_sales_report_shows_charts_that_are_there(analysed):
    _, out = analysed
    shown = re.findall(r"!\[.*?\]\((.*?)\)", (out / "report.md").read_text(encoding="utf-8"))
    assert shown == ["revenue_by_month.png", "revenue_by_product.png"]
    for picture in shown:
        assert_picture((out / picture).read_bytes())


def assert_picture(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert data[-8:-4] == b"IEND"
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) == (800, 400)
    assert len(data) > 5_000


@pytest.mark.req("S2-12", "S2-39", "S2-38")
def test_queries_run_side_by_side_and_the_report_waits_for_all_it_joins(tmp_path):
    analyst, generate = module("sales", "analyst"), module("sales", "generate")
    generate.write_sales(tmp_path / "sales.csv")
    mcp = server(sales=tmp_path / "sales.csv", out=tmp_path)
    graph = build_prompt_flow(model=analyst.analyst(), mcp=mcp, policy="allow")
    places, outcome = {}, None
    asked = {"messages": [("user", analyst.GOAL)]}
    for mode, data in graph.stream(asked, stream_mode=["custom", "values"]):
        if mode == "values":
            outcome = data.get("outcome") or outcome
        elif "step_id" in data:
            places[data["step_id"], data["type"].rpartition("_")[2]] = len(places)
    assert outcome["status"] == "complete"
    side_by_side = ("by_month", "by_region", "by_product")
    begun = max(places[step, "start"] for step in side_by_side)
    assert begun < min(places[step, "result"] for step in side_by_side)
    joined = ("month_chart", "product_chart", "analysis")
    assert places["report", "start"] > max(places[step, "result"] for step in joined)
    assert [task["id"] for task in outcome["tasks"]] == [s["id"] for s in analyst.PLAN["steps"]]


REFUSED = {
    "DROP TABLE sales": "Only one SELECT",
    "SELECT 1; DELETE FROM sales": "Only one SELECT",
    "WITH x AS (DELETE FROM sales RETURNING *) SELECT * FROM x": "read-only",
    "WITH x AS (UPDATE sales SET units = 0 RETURNING *) SELECT count(*) FROM x": "read-only",
    "WITH x AS (INSERT INTO sales SELECT * FROM sales RETURNING *) SELECT 1 FROM x": "read-only",
    "SELECT repeat('x', 20000) FROM sales LIMIT 1000": "more than 1,000,000 characters",
    "SELECT list(a) FROM range(100000000) t(a)": "more memory",
    "COPY sales TO 'copy.csv'": "Only one SELECT",
    "SET threads = 1": "Only one SELECT",
    "": "Only one SELECT",
    "SELECT * FROM read_csv('/etc/passwd')": "disabled by configuration",
    "SELECT * FROM sales": "more than 1,000 rows",
    "SELECT 1 AS a, 2 AS a": "same name",
    "SELECT nothing FROM sales": "not found",
}
CHART = {"title": "t", "rows": [{"a": "x", "b": 1}], "x": "a", "y": "b", "path": "c.png"}
NOT_DRAWN = [
    ({"path": "../c.png"}, "in the output folder"),
    ({"path": "/tmp/c.png"}, "in the output folder"),
    ({"path": "c.md"}, "name a .png file"),
    ({"path": "away/c.png"}, "in the output folder"),
    ({"x": "z"}, "A row has no 'z'"),
    ({"y": "a"}, "needs numbers"),
    ({"rows": []}, "no rows to draw"),
]


@pytest.mark.req("W-74")
async def test_the_sales_server_only_reads_its_table_and_only_writes_into_its_folder(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "away").symlink_to(tmp_path)
    module("sales", "generate").write_sales(tmp_path / "sales.csv")
    config = server(sales=tmp_path / "sales.csv", out=out)["sales"]
    async with stdio_client(StdioServerParameters(**config)) as pipes, ClientSession(*pipes) as s:
        await s.initialize()
        for sql, why in REFUSED.items():
            answer = await s.call_tool("query_sales", {"sql": sql})
            assert answer.isError, sql
            assert why in answer.content[0].text
        for change, why in NOT_DRAWN:
            answer = await s.call_tool("draw_chart", {**CHART, **change})
            assert answer.isError, change
            assert why in answer.content[0].text
        counted = await s.call_tool("query_sales", {"sql": "SELECT count(*) AS n FROM sales"})
    assert counted.structuredContent["rows"] == [{"n": 8_772}]
    assert {path.name for path in tmp_path.rglob("*")} == {"out", "away", "sales.csv"}


# ---- refund


@pytest.mark.req("S2-40")
def test_the_refund_is_made_once_and_the_reply_says_what_it_must(run, tmp_path):
    code, said = run()
    assert code == 0, said
    assert said.count("Run request_refund") == 1
    assert said.index("sentiment completed") < said.index("Run request_refund")
    assert "\nComplete.\n" in said
    [refund] = rows(tmp_path / "out", "refunds")
    assert (refund["order_id"], refund["cents"]) == ("A-1042", 14_900)
    [reply] = rows(tmp_path / "out", "ticket_notes")
    text = reply["text"]
    assert text.startswith("Dear Ada Byron")
    assert "I am sorry" in text
    assert "I understand how annoying" in text, "the tone of the message is met"
    assert "or your money back as our policy has it" in text
    assert f"R-{refund['number']} of 149.00 EUR" in text
    assert "it arrives five working days after the refund is made." in text
    assert text.endswith("Kind regards\nCustomer care")
    code, again = run()
    assert code == 0
    assert "\nComplete.\n" in again
    assert "request_refund" not in again, "a case that is closed is not worked on again"
    assert len(rows(tmp_path / "out", "refunds")) == 1


@pytest.mark.parametrize("end", ["unanswered", "killed"])
def test_a_run_that_stopped_at_its_question_goes_on_with_the_answer(
    end, run, tmp_path, environment
):
    if end == "killed":
        kill_at_the_question(tmp_path, environment)
    else:
        code, said = run("--ask")
        assert code == 5
        assert "start the program again" in said
    assert rows(tmp_path / "out", "refunds") == []
    code, said = run("--ask", said="y\n")
    assert code == 0, said
    assert "> sentiment" not in said, "what was done is not done again"
    for table in ("refunds", "tickets", "ticket_notes"):
        assert len(rows(tmp_path / "out", table)) == 1


def kill_at_the_question(tmp_path, environment):
    """It reads its answer from a pipe into which nobody writes."""
    os.mkfifo(pipe := tmp_path / "nobody")
    held = os.open(pipe, os.O_RDWR)
    with contextlib.chdir(tmp_path):
        process = forked.Command(
            forked.server(), ("--out", str(tmp_path / "out"), "--ask"), env=environment,
            script=EXAMPLES / "refund" / "run.py", reads=pipe,
        )  # fmt: skip
    with process:
        patient = time.monotonic() + PATIENCE
        while "[y/n]" not in process.said()[0]:
            assert process.poll() is None, process.said()
            assert time.monotonic() < patient
            time.sleep(0.05)
        process.kill()
    os.close(held)


def test_a_refund_that_is_refused_is_not_made_and_nothing_is_sent(run, tmp_path):
    code, said = run("--ask", said="n\n")
    assert code == 3
    assert "\nBlocked: you rejected a call." in said
    assert rows(tmp_path / "out", "refunds") == rows(tmp_path / "out", "ticket_notes") == []


@pytest.fixture
def shop(tmp_path):
    return new_shop(tmp_path)


@pytest.mark.req("S2-40", "S2-12")
def test_sentiment_and_policy_are_looked_into_at_the_same_time(shop, tmp_path):
    clerk = module("refund", "clerk")
    known = threading.Event()

    async def slow(messages, _):
        assert await asyncio.to_thread(known.wait, PATIENCE), "the policy waits for the sentiment"
        return clerk._written(messages, _)

    turns = {"flow_planner": [clerk.PLAN], "llm_call": slow, "answerer": clerk._answered}
    graph = build_prompt_flow(model=ScriptedModel(turns), mcp=shop, policy="allow")
    ended = []
    for event in graph.stream({"messages": [("user", clerk.GOAL)]}, stream_mode="custom"):
        if event["type"] == "prompt_flow_step_result":
            ended.append((event["step_id"], event["status"]))
            if event["step_id"] == "policy":
                known.set()
    assert dict(ended).keys() == {step["id"] for step in clerk.PLAN["steps"]}
    assert [i for i, _ in ended[-3:]] == ["refund", "reply", "send"]
    assert {status for _, status in ended} == {"completed"}
    assert len(rows(tmp_path, "refunds")) == 1


@pytest.mark.req("S2-29", "S2-40")
def test_a_reply_without_an_apology_is_written_again_and_the_refund_stays(shop, tmp_path):
    clerk = module("refund", "clerk")
    letters = []

    def careless(messages, _):
        text = clerk._written(messages, _)
        if text.startswith("Dear"):
            letters.append(text if letters else text.replace("sorry", "glad"))
            return letters[-1]
        return text

    turns = {
        "flow_planner": [clerk.PLAN],
        "llm_call": careless,
        "recovery": [{"strategy": "retry_step", "reason": "The apology is missing."}],
        "answerer": clerk._answered,
    }
    with open_durability(f"sqlite:///{tmp_path}/threads.db") as durability:
        graph = build_prompt_flow(model=ScriptedModel(turns), mcp=shop, durability=durability)
        given = {"messages": [("user", clerk.GOAL)]}
        asked = []
        while given is not None:
            outcome = graph.invoke(given, CASE, context=Context()).get("outcome")
            [*questions] = graph.get_state(CASE).interrupts
            asked += [q.value["action_requests"][0]["name"] for q in questions]
            given = (
                Command(resume={q.id: {"type": "approve"} for q in questions})
                if questions
                else None
            )
    assert outcome["status"] == "complete"
    assert asked == ["create_ticket", "request_refund", "update_ticket"]
    assert len(letters) == 2
    assert len(rows(tmp_path, "refunds")) == 1
    [reply] = rows(tmp_path, "ticket_notes")
    assert "I am sorry" in reply["text"]
    [task] = [task for task in outcome["tasks"] if task["id"] == "reply"]
    assert task["attempts"] == 2
