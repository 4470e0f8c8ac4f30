// The components that only show. Each gets its props checked and whole, and what surrounds it.
import type { ReactNode } from "react";
import { Flow } from "./flow.tsx";
import { Badge, Card, Code, Folded, Lines, Link, Mark, More, Words, cut, inJson, inWords, joined, said, seconds, some } from "./parts.tsx";
import type * as Props from "./types.ts";

type Shown<P> = { props: P; around: Props.Surroundings };

const isLeft = ({ status }: Props.Todo) => status === "skipped" || status === "cancelled";

function Todos({ of }: { of: (Props.Todo & Partial<Props.Step>)[] }) {
  return (
    <>
      <ul>
        {some(of).map((todo, place) => (
          <li key={place} className={isLeft(todo) ? "left" : undefined}>
            <Mark status={todo.status} />
            <span className="grow words">
              {joined(todo.id, cut(todo.description || todo.tool || "")) || "…"}
              {todo.depends_on.length > 0 && <span className="soft"> after {cut(todo.depends_on.join(", "))}</span>}
              {Boolean(todo.items) && <span className="soft"> {todo.done} of {todo.items}</span>}
            </span>
          </li>
        ))}
      </ul>
      <More of={of} />
    </>
  );
}

const progress = (todos: Props.Todo[]) => {
  const done = todos.filter(({ status }) => status === "completed" || status === "skipped").length;
  return todos.length ? `${done} of ${todos.length} done` : "";
};

/** What the message above does not already say. */
const unsaid = (text: string, { said }: Props.Surroundings) => (text.trim() && said.includes(text.trim()) ? "" : text);

/** A plan while it is made; once its tasks stand in the message above or in a list beside it, the rest. */
export function PlannerResponse({ props, around }: Shown<Props.Planner>) {
  const said = props.todos.length > 0 && props.todos.every((todo) => !unsaid(todo.description, around));
  const listed = !props.streaming && (said || around.beside.some((name) => name === "todo-list" || name === "flow-graph"));
  const summary = unsaid(props.summary, around);
  if (listed && !summary && !props.missing_information.length) return null;
  return (
    <Card common={props} around={around} title="Plan" empty="There is no plan yet.">
      {summary && <Words>{summary}</Words>}
      {!listed && props.todos.length > 0 && <Todos of={props.todos} />}
      {props.missing_information.length > 0 && <Lines label="What only you can tell:" of={props.missing_information} />}
    </Card>
  );
}

const Titled = ({ status, children }: { status: string; children: ReactNode }) => <><Mark status={status} /> {children}</>;

export const ExecutorResponse = ({ props, around }: Shown<Props.Executor>) => (
  <Card
    common={props} around={around}
    title={<Titled status={props.status}>{joined(props.task && `Task ${props.task}`, cut(props.description)) || "Task"}</Titled>}
    aside={joined(inWords(props.status), props.attempt > 1 && `attempt ${props.attempt}`)}
  >
    {unsaid(props.summary, around) && <Words>{unsaid(props.summary, around)}</Words>}
  </Card>
);

export const VerifierResponse = ({ props, around }: Shown<Props.Verifier>) => (
  <Card
    common={props} around={around} title="Check" empty={props.passed === null ? "There is no verdict yet." : ""}
    aside={props.passed === null ? "" : <Badge status={props.passed ? "completed" : "failed"} says={props.passed ? "passed" : "not yet"} />}
  >
    {unsaid(props.feedback, around) && <Words>{unsaid(props.feedback, around)}</Words>}
    {props.tasks.length > 0 && (
      <ul>
        {some(props.tasks).map((task, place) => (
          <li key={place}>
            <Mark status={task.completed ? "completed" : "failed"} />
            <span className="grow words">{joined(`Task ${task.id}`, cut(task.feedback))}</span>
          </li>
        ))}
      </ul>
    )}
    {props.improvements.length > 0 && <Lines label="To be mended:" of={props.improvements} />}
  </Card>
);

const whyEnded = (reason: string) => reason;

export const SummaryResponse = ({ props, around }: Shown<Props.Summary>) => (
  <Card
    common={props} around={around} title={<Badge status={props.status} />}
    aside={joined(whyEnded(props.reason), props.total > 0 && `${props.done} of ${props.total} done`)}
  >
    {props.unmet.length > 0 && <Lines label="Not done:" of={props.unmet} />}
    {props.warnings.length > 0 && <Lines label="To know:" of={props.warnings} />}
  </Card>
);

export const TodoList = ({ props, around }: Shown<Props.TodoList>) => (
  <Card common={props} around={around} title="Tasks" aside={progress(props.todos)} empty="There are no tasks.">
    {props.todos.length > 0 && <Todos of={props.todos} />}
  </Card>
);

export const FlowGraph = ({ props, around }: Shown<Props.FlowGraph>) => (
  <Card common={props} around={around} title="Steps" aside={progress(props.steps)} empty="There are no steps.">
    {props.steps.length > 0 && <Flow steps={some(props.steps)} />}
    {props.steps.length > 0 && <Folded label="In words"><Todos of={props.steps} /></Folded>}
  </Card>
);

/** One line, which opens: a run makes many calls. While it is asked about, the question shows it. */
export const ToolCall = ({ props, around }: Shown<Props.ToolCall>) => around.question && around.beside.includes("approval") ? null : (
  <Card common={props} around={around}>
    <Folded
      label={<code className="words">{cut(props.tool) || "call"}</code>} open={props.status === "error"}
      aside={<><Badge status={props.status} /> {joined(cut(inWords(props.reason)), seconds(props.seconds))}</>}
    >
      {Object.keys(props.arguments).length > 0 && <Code>{props.arguments}</Code>}
      {props.reused_from && <p className="soft words">The result of call {props.reused_from} is used again.</p>}
      {props.result && <Code>{props.result}</Code>}
    </Folded>
  </Card>
);

export const ResourceList = ({ props, around }: Shown<Props.ResourceList>) => (
  <Card
    common={props} around={around} title={props.title || "Resources"} empty="There are none."
    aside={props.resources.length > 0 && String(props.resources.length)}
  >
    {props.resources.length > 0 && (
      <ul>
        {some(props.resources).map((one, place) => (
          <li key={place} className="plain">
            <span className="grow"><Link to={one.uri}>{one.name}</Link> <span className="soft words">{joined(cut(one.description), one.mime_type)}</span></span>
          </li>
        ))}
      </ul>
    )}
    {props.resources.length > 0 && <More of={props.resources} />}
  </Card>
);

function Details({ of }: { of: Props.Json }) {
  const pairs = Object.entries(of).filter(([, value]) => value !== null && value !== "");
  if (!pairs.length) return null;
  return (
    <dl>
      {some(pairs).map(([key, value]) => (
        <div key={key}><dt className="words">{cut(inWords(key))}</dt><dd className="words">{cut(typeof value === "object" ? inJson(value) : String(value))}</dd></div>
      ))}
    </dl>
  );
}

export const ResourceInfo = ({ props, around }: Shown<Props.ResourceInfo>) => (
  <Card common={props} around={around} title={props.name || "Resource"} aside={props.mime_type}>
    {props.description && <Words>{props.description}</Words>}
    {props.uri && <p><Link to={props.uri} /></p>}
    <Details of={props.details} />
  </Card>
);

export const TaskInfo = ({ props, around }: Shown<Props.TaskInfo>) => (
  <Card
    common={props} around={around} aside={inWords(props.status)}
    title={<Titled status={props.status}>{joined(props.id, cut(props.title)) || "Task"}</Titled>}
  >
    {props.description && <Words>{props.description}</Words>}
    <Details of={props.details} />
  </Card>
);

export const Handoff = ({ props, around }: Shown<Props.Handoff>) => (
  <Card
    common={props} around={around} aside={joined(props.reference, inWords(props.status))}
    title={[props.source, props.target].filter(Boolean).join(" → ") || "Hand-over"}
  >
    {props.reason && <Words>{props.reason}</Words>}
    {props.summary && <Words soft>{props.summary}</Words>}
  </Card>
);

/** What the customer is asked a yes for; a button answers with a message that names the question. */
export const Proposal = ({ props, around }: Shown<Props.Proposal>) => {
  const open = !props.answered && !around.live && around.say;
  const answer = (figure: number) => around.say!(`${figure} ${props.id}`);
  return (
    <Card common={props} around={around} title="Please check" aside={said(ANSWERS, props.answered)}>
      <ul>{props.lines.map((line, place) => <li key={place} className="plain"><span className="grow words">{line}</span></li>)}</ul>
      {open && (
        <div className="buttons">
          <button type="button" className="main" onClick={() => answer(1)}>1 ✓</button>
          <button type="button" onClick={() => answer(2)}>2 ✗</button>
        </div>
      )}
    </Card>
  );
};

const ANSWERS: Record<string, string> = { yes: "agreed", no: "declined", other: "no longer asked" };

const MARKS: Record<string, string> = { done: "completed", failed: "failed", refused: "cancelled", nothing: "cancelled" };

/** What was done and what was not, as code tells it. */
export const Receipt = ({ props, around }: Shown<Props.Receipt>) => (
  <Card common={props} around={around} title="What was done">
    <ul>{props.lines.map(({ kind, text }, place) => <li key={place} className="plain"><Titled status={MARKS[kind] ?? "pending"}>{text}</Titled></li>)}</ul>
  </Card>
);
