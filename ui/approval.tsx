// A question to a human, with its answers: whatever is sent is one of the shapes that every graph takes.
import { useEffect, useRef, useState } from "react";
import { Card, Code, Folded, Words, cut, inJson, inWords, said } from "./parts.tsx";
import type { Approval as Props, Json, Surroundings } from "./types.ts";

type Mode = "" | "edit" | "reject" | "respond";

const OUTCOMES: Record<string, string> = {
  approve: "approved", edit: "approved with changes", reject: "rejected", respond: "answered",
  expired: "expired", superseded: "no longer asked",
};

export function Approval({ props: given, around }: { props: Props; around: Surroundings }) {
  const [mode, setMode] = useState<Mode>("");
  const [sent, setSent] = useState("");
  const wasLive = useRef(around.live);
  useEffect(() => {
    if (wasLive.current && !around.live) setSent(""); // it has been taken, or the question is still open
    wasLive.current = around.live;
  }, [around.live]);
  const props = asAsked(given, around.question);
  // The call beside it says that it waits, or that it ran.
  const told = !around.question && around.calls.includes(given.id) && ["", "approve"].includes(given.answered);
  const open = around.act && !around.live && !props.answered && !sent;
  const send = (answer: Json) => {
    setSent(String(answer.type));
    around.act!({ type: "component-action", component: "approval", answer });
  };
  const doing = mode || directly(props);
  const leave = () => (mode ? setMode("") : send({ type: "reject", message: "" }));
  const form = { args: props.action.args, send, leave, back: mode ? "Back" : "Do not answer" };
  return told ? null : (
    <Card common={props} around={around} title={heading(props)} aside={said(OUTCOMES, props.answered || sent) ?? (open ? "" : around.live ? "waiting" : "no longer asked")}>
      <Words>{props.description}</Words>
      {!isPlan(props) && doing !== "edit" && !directly(props) && Object.keys(props.action.args).length > 0 && (
        <Folded label={<code className="words">{cut(props.action.name)}</code>} open={Boolean(open) && !props.description}><Code>{props.action.args}</Code></Folded>
      )}
      {open && !doing && <Buttons props={props} send={send} setMode={setMode} />}
      {open && doing === "edit" && (isPlan(props) ? <PlanForm {...form} /> : <ArgumentForm {...form} />)}
      {open && (doing === "reject" || doing === "respond") && <WordsForm kind={doing} {...form} />}
    </Card>
  );
}

type Asked = Props & { decisions: string[] };

/** The question itself, where it is open: what is answered is what is shown, whoever drew this. */
function asAsked(given: Props, question: Json | undefined): Asked {
  if (!question) return { ...given, decisions: [] };
  const first = (key: string) => ((question[key] as Json[] | undefined)?.[0] ?? {}) as Json;
  const { name, args } = first("action_requests");
  const { allowed_decisions: decisions } = first("review_configs");
  return {
    ...given,
    kind: String(question.type ?? name ?? ""),
    description: String(question.description ?? ""),
    action: { name: String(name ?? ""), args: isRow(args) ? (args as Json) : {} },
    decisions: Array.isArray(decisions) ? decisions.map(String) : [],
  };
}

const HEADINGS: Record<string, string> = {
  tool_approval: "May this run?", uncertain_call: "What became of this call?", elicitation: "A server asks",
  ask_user: "A question for you", review_plan: "Is this plan right?", review_flow: "Is this plan right?",
};

const heading = ({ kind, action }: Props) => said(HEADINGS, kind) ?? said(HEADINGS, action.name) ?? (inWords(kind) || "A question");

const listed = (args: Json) => ["todos", "steps"].find((key) => Array.isArray(args[key]) && (args[key] as unknown[]).every(isRow));
const isRow = (row: unknown) => typeof row === "object" && row !== null && !Array.isArray(row);
const isPlan = ({ action }: Props) => action.name.startsWith("review_") && listed(action.args) !== undefined;

/** Whether a page holds these values as they are: long numbers it would send back rounded. */
function isWhole(value: unknown): boolean {
  if (typeof value === "number") return Math.abs(value) <= Number.MAX_SAFE_INTEGER;
  return typeof value !== "object" || value === null || Object.values(value).every(isWhole);
}

/** A question that wants words, or a form filled in, has its field there at once. */
function directly({ action, decisions }: Asked): Mode {
  if (decisions.includes("approve") || !decisions.includes("respond")) return "";
  return Object.keys(action.args).some((key) => key !== "answer" && key !== "questions") ? "edit" : "respond";
}

const LABELS: Record<string, string> = { edit: "Change …", reject: "Reject …", respond: "Answer …" };

function Buttons({ props, send, setMode }: { props: Asked; send: (answer: Json) => void; setMode: (mode: Mode) => void }) {
  const may = (kind: string) => props.decisions.includes(kind);
  return (
    <div className="row">
      {may("approve") && <button type="button" className="main" onClick={() => send({ type: "approve" })}>Approve</button>}
      {may("approve") && props.kind === "tool_approval" && (
        <button type="button" onClick={() => send({ type: "approve", remember: "tool" })} title="Not asked again for this tool in this thread">
          Always
        </button>
      )}
      {(["edit", "respond", "reject"] as const).filter((kind) => may(kind) && (kind !== "edit" || isWhole(props.action.args))).map((kind) => (
        <button key={kind} type="button" onClick={() => setMode(kind)}>{LABELS[kind]}</button>
      ))}
    </div>
  );
}

type FormProps = { args: Json; send: (answer: Json) => void; leave: () => void; back: string };

const Ends = ({ label, ready, send, leave, back }: { label: string; ready: boolean; send: () => void; leave: () => void; back: string }) => (
  <div className="row">
    <button type="button" className="main" disabled={!ready} onClick={send}>{label}</button>
    <button type="button" onClick={leave}>{back}</button>
  </div>
);

function WordsForm({ kind, send, ...ways }: FormProps & { kind: "reject" | "respond" }) {
  const [words, setWords] = useState("");
  const label = kind === "reject" ? "Reason (optional)" : "Your answer";
  return (
    <>
      <p><textarea rows={3} aria-label={label} placeholder={label} value={words} onChange={(e) => setWords(e.target.value)} /></p>
      <Ends label={kind === "reject" ? "Reject" : "Send"} ready={kind === "reject" || words.trim() !== ""} {...ways}
        send={() => send({ type: kind, message: words.trim() })} />
    </>
  );
}

/** The arguments as fields: a text stays one, everything else is JSON. */
function ArgumentForm({ args, send, ...ways }: FormProps) {
  const [fields, setFields] = useState(() => Object.entries(args).filter(([key]) => key !== "answer" || args[key] !== "").map(([key, value]) => [key, typeof value === "string" ? value : inJson(value)] as const));
  const read = fields.map(([key, text]) => [key, typeof args[key] === "string" ? { value: text } : fromJson(text)] as const);
  const bad = read.filter(([, one]) => one === null).map(([key]) => key);
  return (
    <>
      {fields.map(([key, text], place) => (
        <p key={place}>
          <label>
            <span className="soft words">{key}</span>
            <textarea rows={Math.min(8, 1 + text.split("\n").length)} value={text}
              onChange={(e) => setFields(fields.map((one, at) => (at === place ? [key, e.target.value] : one)))} />
          </label>
        </p>
      ))}
      {bad.length > 0 && <p className="error words" role="alert">Not JSON: {bad.join(", ")}</p>}
      <Ends label="Send" ready={!bad.length} {...ways}
        send={() => send({ type: "edit", args: Object.fromEntries(read.map(([key, one]) => [key, one!.value])) })} />
    </>
  );
}

function fromJson(text: string): { value: unknown } | null {
  try {
    return { value: JSON.parse(text) };
  } catch {
    return null;
  }
}

/** The rows of a plan: moved, left out, worded anew. */
function PlanForm({ args, send, ...ways }: FormProps) {
  const key = listed(args)!;
  const [rows, setRows] = useState(() => (args[key] as Json[]).map((row) => ({ row, out: false })));
  const swap = (a: number, b: number) => setRows(rows.map((one, at) => (at === a ? rows[b]! : at === b ? rows[a]! : one)));
  const change = (place: number, to: Partial<{ row: Json; out: boolean }>) =>
    setRows(rows.map((one, at) => (at === place ? { ...one, ...to } : one)));
  const plan = () => ({ type: "edit", args: { ...args, [key]: kept(rows.filter(({ out }) => !out).map(({ row }) => row)) } });
  return (
    <>
      <ul>
        {rows.map(({ row, out }, place) => (
          <li key={place} className={out ? "left" : undefined}>
            <span className="soft">{String(row.id ?? place + 1)}</span>
            <textarea className="grow" rows={1} disabled={out} aria-label={`Task ${String(row.id ?? place + 1)}`}
              value={String(row.description ?? "")} onChange={(e) => change(place, { row: { ...row, description: e.target.value } })} />
            <button type="button" className="tiny" aria-label="Up" disabled={!place} onClick={() => swap(place, place - 1)}>↑</button>
            <button type="button" className="tiny" aria-label="Down" disabled={place === rows.length - 1} onClick={() => swap(place, place + 1)}>↓</button>
            <button type="button" className="tiny" onClick={() => change(place, { out: !out })}>{out ? "Keep" : "Skip"}</button>
          </li>
        ))}
      </ul>
      <Ends label="Run this plan" ready={rows.some(({ out }) => !out)} send={() => send(plan())} {...ways} />
    </>
  );
}

/** The rows in their new order: by priority where they have one; nobody waits for one that is left out. */
export function kept(rows: Json[]): Json[] {
  const ids = new Set(rows.map(({ id }) => id));
  return rows.map((row, place) => ({
    ...row,
    ...("priority" in row && { priority: place + 1 }),
    ...Object.fromEntries(["depends_on", "dependsOn", "dependencies"].filter((key) => Array.isArray(row[key]))
      .map((key) => [key, (row[key] as unknown[]).filter((id) => ids.has(id))])),
  }));
}
