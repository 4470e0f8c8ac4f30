// What all components are made of. Whatever comes from models and tools ends as a text node.
import type { ReactNode } from "react";
import type { Common, Surroundings } from "./types.ts";

const MOST_TEXT = 20_000;
const MOST_ROWS = 200;

export const STYLE = `
.lw { --line: color-mix(in srgb, currentColor 16%, transparent); --soft: color-mix(in srgb, currentColor 5%, transparent);
  --good: #2f9e5f; --bad: #d9484b; --busy: #4a80e8; --warn: #c58a1a;
  box-sizing: border-box; max-width: 46rem; margin: 6px 0; padding: 10px 14px; border: 1px solid var(--line);
  border-radius: 12px; font-size: 14px; line-height: 1.5; overflow-wrap: anywhere; text-align: start; }
.lw * { box-sizing: border-box; }
.lw header { display: flex; flex-wrap: wrap; align-items: baseline; gap: 8px; font-weight: 600; }
.lw header > .soft { font-weight: 400; margin-inline-start: auto; }
.lw p, .lw ul, .lw pre, .lw dl { margin: 6px 0 0; padding: 0; }
.lw ul { list-style: none; }
.lw li { display: flex; gap: 8px; padding: 2px 0; }
.lw li > .grow { flex: 1; min-width: 0; }
.lw li.plain::before { content: "·"; opacity: .6; }
.lw .words { white-space: pre-wrap; unicode-bidi: isolate; }
.lw .soft { opacity: .65; font-size: 13px; }
.lw pre { padding: 8px 10px; border-radius: 8px; background: var(--soft); font: 12px/1.5 ui-monospace, monospace;
  white-space: pre-wrap; max-height: 22rem; overflow: auto; unicode-bidi: isolate; }
.lw dl > div { display: flex; gap: 12px; }
.lw dt { flex: 0 0 8em; opacity: .65; } .lw dd { margin: 0; min-width: 0; flex: 1; }
.lw code { font: 12px/1.5 ui-monospace, monospace; }
.lw summary { cursor: pointer; font-size: 13px; } .lw p + details, .lw .scroll + details { margin-top: 6px; }
.lw .mark { flex: none; width: 1.1em; text-align: center; font-weight: 700; }
.lw .completed, .lw .success, .lw .complete { color: var(--good); }
.lw .failed, .lw .error, .lw .stuck { color: var(--bad); }
.lw .in_progress, .lw .executing, .lw .validating { color: var(--busy); }
.lw .awaiting_approval, .lw .blocked, .lw .partial, .lw .exhausted { color: var(--warn); }
.lw .left { opacity: .55; }
.lw .badge { font-size: 12px; font-weight: 500; }
.lw .badge::before { content: "● "; font-size: 9px; vertical-align: 1px; }
.lw .cursor { display: inline-block; width: 2px; height: 1em; margin-inline-start: 3px; vertical-align: -2px;
  background: var(--busy); animation: lw-blink 1s steps(2) infinite; }
@keyframes lw-blink { 50% { opacity: 0; } }
@media (prefers-reduced-motion: reduce) { .lw .cursor { animation: none; } }
.lw a { color: var(--busy); }
.lw button { font: inherit; font-size: 13px; padding: 3px 12px; color: inherit; background: transparent;
  border: 1px solid var(--line); border-radius: 8px; cursor: pointer; }
.lw button.main { color: #fff; background: #2f7d52; border-color: transparent; }
.lw button.tiny { padding: 0 6px; font-size: 12px; }
.lw button:hover:enabled { background: var(--soft); } .lw button.main:hover:enabled { background: #276a45; }
.lw button:disabled { opacity: .45; cursor: default; }
.lw button:focus-visible, .lw textarea:focus-visible { outline: 2px solid var(--busy); outline-offset: 1px; }
.lw textarea { width: 100%; font: 13px/1.5 ui-monospace, monospace; color: inherit; background: var(--soft);
  border: 1px solid var(--line); border-radius: 8px; padding: 6px 8px; resize: vertical; }
.lw .row { display: flex; flex-wrap: wrap; gap: 8px; margin-top: 10px; align-items: center; }
.lw svg { display: block; margin-top: 8px; max-width: none; } .lw .scroll { overflow-x: auto; }
`;

/** The frame of a component: its head, what it says, and its error, cursor or what is not there yet. */
export function Card(props: {
  common: Common; around: Surroundings; title?: ReactNode; aside?: ReactNode; empty?: string; children?: ReactNode;
}) {
  const { common, around, children } = props;
  const growing = Boolean(common.streaming) && around.live;
  const filled = Array.isArray(children) ? children.some(isThere) : isThere(children);
  return (
    <section className="lw" aria-busy={growing}>
      <style>{STYLE}</style>
      {isThere(props.title) && (
        <header>
          <span className="words">{props.title}{growing && <Cursor />}</span>
          {isThere(props.aside) && <span className="soft">{props.aside}</span>}
        </header>
      )}
      {children}
      {!filled && (growing || props.empty) && <p className="soft">{growing ? "Working on it …" : props.empty}</p>}
      {common.error && <p role="alert" className="error words">{cut(common.error)}</p>}
    </section>
  );
}

export const isThere = (node: ReactNode) => node !== null && node !== undefined && node !== false && node !== "";

export const Cursor = () => <span className="cursor" aria-hidden="true" />;

/** Words of a model or tool: as text, with its web addresses as links. */
export function Words({ children, soft = false }: { children: string; soft?: boolean }) {
  if (!children.trim()) return null;
  const pieces = cut(children).split(/(https?:\/\/[^\s<>"'`]+)/);
  return (
    <p className={soft ? "words soft" : "words"}>
      {pieces.map((piece, place) => (place % 2 ? <Link key={place} to={piece} /> : piece))}
    </p>
  );
}

/** A link where the address is one of the web, else the address as text. */
export function Link({ to, children }: { to: string; children?: string }) {
  const address = webAddress(to);
  const shown = children?.trim() ? children : to;
  if (!address) return <span className="words">{cut(shown)}</span>;
  return <a href={address} target="_blank" rel="noopener noreferrer nofollow" title={to}>{cut(shown)}</a>;
}

function webAddress(text: string): string | null {
  try {
    const { protocol, href } = new URL(text);
    return protocol === "http:" || protocol === "https:" ? href : null;
  } catch {
    return null;
  }
}

export function Code({ children }: { children: unknown }) {
  return <pre>{cut(typeof children === "string" ? children : inJson(children))}</pre>;
}

export function Folded(props: { label: ReactNode; aside?: ReactNode; open?: boolean; children: ReactNode }) {
  return (
    <details open={props.open}>
      <summary>{props.label}{isThere(props.aside) && <span className="soft"> {props.aside}</span>}</summary>
      {props.children}
    </details>
  );
}

export const Lines = ({ of, label = "" }: { of: string[]; label?: string }) =>
  of.length ? (
    <>
      {label && <p className="soft">{label}</p>}
      <ul>{some(of).map((line, place) => <li key={place} className="plain"><span className="grow words">{cut(line)}</span></li>)}</ul>
      <More of={of} />
    </>
  ) : null;

export const some = <T,>(rows: T[]) => rows.slice(0, MOST_ROWS);
export const More = ({ of }: { of: unknown[] }) =>
  of.length > MOST_ROWS ? <p className="soft">and {of.length - MOST_ROWS} more</p> : null;

const MARKS: Record<string, string> = {
  pending: "○", in_progress: "◐", completed: "✓", failed: "✕", skipped: "↷", cancelled: "⊘", blocked: "!",
};

export const Mark = ({ status }: { status: string }) => (
  <span className={`mark ${word(status)}`} title={inWords(status)} aria-label={inWords(status)}>{said(MARKS, status) ?? "○"}</span>
);

export const Badge = ({ status, says = inWords(status) }: { status: string; says?: string }) =>
  status ? <span className={`badge ${word(status)}`}>{says}</span> : null;

/** What a table says of a word; of one that it does not have, such as __proto__, nothing. */
export const said = (table: Record<string, string>, word: string) => (Object.hasOwn(table, word) ? table[word] : undefined);

export const inWords = (name: string) => name.replaceAll("_", " ");
export const seconds = (value: number) => (value >= 0.05 ? `${value.toFixed(value < 10 ? 1 : 0)} s` : "");
export const joined = (...parts: (string | false | null | undefined)[]) => parts.filter(Boolean).join(" · ");

/** What may stand in a class list: the checked words are, others are none. */
const word = (status: string) => (/^[a-z_]{1,30}$/.test(status) ? status : "");

export function cut(text: string): string {
  return text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)}\n… ${text.length - MOST_TEXT} characters more` : text;
}

export function inJson(value: unknown): string {
  try {
    return JSON.stringify(value, null, 2) ?? String(value);
  } catch {
    return "This value cannot be shown.";
  }
}
