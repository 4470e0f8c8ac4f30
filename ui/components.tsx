// The components that only show. Each gets its props checked and whole, and what surrounds it.
import { Badge, Card, Code, Folded, Lines, Link, Mark, More, Words, cut, inWords, joined, seconds, some } from "./parts.tsx";
import { Flow } from "./flow.tsx";
import type * as Props from "./types.ts";

type Shown<P> = { props: P; around: Props.Surroundings };

const isLeft = ({ status }: Props.Todo) => status === "skipped" || status === "cancelled";

function Todos({ of }: { of: Props.Todo[] }) {
  if (!of.length) return null;
  return (
    <>
      <ul>
        {some(of).map((todo, place) => (
          <li key={place} className={isLeft(todo) ? "left" : undefined}>
            <Mark status={todo.status} />
            <span className="grow words">
              {joined(todo.id, cut(todo.description)) || "…"}
              {todo.depends_on.length > 0 && <span className="soft"> after {todo.depends_on.join(", ")}</span>}
            </span>
          </li>
        ))}
      </ul>
      <More of={of} />
    </>
  );
}

const progress = (todos: Props.Todo[]) =>
  todos.length ? `${todos.filter((todo) => todo.status === "completed").length} of ${todos.length} done` : "";

/** What the message above does not already say. */
const unsaid = (text: string, { said }: Props.Surroundings) => (text.trim() && said.includes(text.trim()) ? "" : text);

export const PlannerResponse = ({ props, around }: Shown<Props.Planner>) => (
  <Card common={props} around={around} title="Plan" aside={progress(props.todos)} empty="There is no plan yet.">
    {unsaid(props.summary, around) && <Words>{unsaid(props.summary, around)}</Words>}
    {props.todos.length > 0 && <Todos of={props.todos} />}
    {props.missing_information.length > 0 && <Lines label="What only you can tell:" of={props.missing_information} />}
    {props.needs_more_planning && !props.missing_information.length && <p className="soft">It is planned further.</p>}
  </Card>
);

export const ExecutorResponse = ({ props, around }: Shown<Props.Executor>) => (
  <Card
    common={props} around={around} empty="Nothing is reported yet."
    title={<><Mark status={props.status} /> {joined(props.task && `Task ${props.task}`, cut(props.description)) || "Task"}</>}
    aside={joined(inWords(props.status), (props.attempt ?? 1) > 1 && `attempt ${props.attempt}`)}
  >
    {unsaid(props.summary, around) && <Words>{unsaid(props.summary, around)}</Words>}
  </Card>
);

const judged = (passed: boolean | null) => (passed === null ? "" : passed ? "passed" : "not yet");

export const VerifierResponse = ({ props, around }: Shown<Props.Verifier>) => (
  <Card common={props} around={around} title="Check" aside={judged(props.passed)} empty="There is no verdict yet.">
    {unsaid(props.feedback, around) && <Words>{unsaid(props.feedback, around)}</Words>}
    {props.tasks.length > 0 && (
      <ul>
        {some(props.tasks).map((task, place) => (
          <li key={place}>
            <Mark status={task.completed ? "completed" : task.completed === null ? "pending" : "failed"} />
            <span className="grow words">
              {joined(`Task ${task.id}`, cut(task.feedback))}
              {task.evidence.length > 0 && <span className="soft"> proven by {task.evidence.join(", ")}</span>}
            </span>
          </li>
        ))}
      </ul>
    )}
    {props.improvements.length > 0 && <Lines label="To be mended:" of={props.improvements} />}
  </Card>
);

export const SummaryResponse = ({ props, around }: Shown<Props.Summary>) => (
  <Card
    common={props} around={around} title={props.status ? <Badge status={props.status} /> : "Answer"}
    aside={props.reason === "GOAL" ? "" : inWords(props.reason.toLowerCase())} empty={props.status ? "" : "There is no answer yet."}
  >
    {unsaid(props.answer, around) && <Words>{unsaid(props.answer, around)}</Words>}
    {props.unmet.length > 0 && <Lines label="Not done:" of={props.unmet} />}
    {props.warnings.length > 0 && <Lines label="To know:" of={props.warnings} />}
  </Card>
);

export const TodoList = ({ props, around }: Shown<Props.TodoList>) => (
  <Card common={props} around={around} title={props.title || "Tasks"} aside={progress(props.todos)} empty="There are no tasks.">
    {props.todos.length > 0 && <Todos of={props.todos} />}
  </Card>
);

export const FlowGraph = ({ props, around }: Shown<Props.FlowGraph>) => (
  <Card common={props} around={around} title={props.title || "Steps"} aside={progress(props.steps)} empty="There are no steps.">
    {props.steps.length > 0 && <Flow steps={some(props.steps)} />}
    {props.steps.length > 0 && <Folded label="In words"><Todos of={props.steps} /></Folded>}
  </Card>
);

export const ToolCall = ({ props, around }: Shown<Props.ToolCall>) => (
  <Card
    common={props} around={around} title={<code>{joined(props.server, props.tool) || "call"}</code>}
    aside={<><Badge status={props.status} /> {joined(props.reason && inWords(props.reason), seconds(props.seconds))}</>}
  >
    {Object.keys(props.arguments).length > 0 && <Folded label="Arguments"><Code>{props.arguments}</Code></Folded>}
    {props.reused_from && <p className="soft">The result of call {props.reused_from} is used again.</p>}
    {props.result && <Folded label="Result" open={props.status === "error"}><Code>{props.result}</Code></Folded>}
    {some(props.content).map((item, place) => <Content key={place} of={item} around={around} />)}
    <More of={props.content} />
  </Card>
);

/** One part of a result. A component of ours is drawn; markup is text like any other. */
function Content({ of, around }: { of: Props.Item; around: Props.Surroundings }) {
  if (of.type === "component" && of.component) return <>{around.draw(of.component, of.props)}</>;
  return typeof of.value === "string" && of.type === "text" ? <Words>{of.value}</Words> : <Code>{of.value ?? ""}</Code>;
}

export const ResourceList = ({ props, around }: Shown<Props.ResourceList>) => (
  <Card
    common={props} around={around} title={props.title || "Resources"} empty="There are none."
    aside={props.resources.length > 0 && String(props.resources.length)}
  >
    {props.resources.length > 0 && (
      <ul>
        {some(props.resources).map((one, place) => (
          <li key={place} className="plain">
            <span className="grow"><Link to={one.uri}>{one.name}</Link> <span className="soft words">{joined(...about(one))}</span></span>
          </li>
        ))}
      </ul>
    )}
    <More of={props.resources} />
  </Card>
);

const UNITS = ["B", "kB", "MB", "GB", "TB"];

function inBytes(size: number | null): string {
  if (size === null || size < 0) return "";
  const power = Math.min(UNITS.length - 1, Math.floor(Math.log10(Math.max(size, 1)) / 3));
  return `${Number((size / 1000 ** power).toPrecision(3))} ${UNITS[power]}`;
}

const about = (one: Props.Resource) => [cut(one.description), one.mime_type, inBytes(one.size)];

export const ResourceInfo = ({ props, around }: Shown<Props.ResourceInfo>) => (
  <Card common={props} around={around} title={props.name || "Resource"} aside={joined(props.mime_type, inBytes(props.size))} empty="Nothing is known of it.">
    {props.description && <Words>{props.description}</Words>}
    {props.uri && <p><Link to={props.uri} /></p>}
    {Object.keys(props.details).length > 0 && (
      <dl>
        {some(Object.entries(props.details)).map(([key, value]) => (
          <Pair key={key} name={key} value={String(value ?? "")} />
        ))}
      </dl>
    )}
  </Card>
);

const Pair = ({ name, value }: { name: string; value: string }) =>
  value ? <><dt className="words">{name}</dt><dd className="words">{cut(value)}</dd></> : null;

export const TaskInfo = ({ props, around }: Shown<Props.TaskInfo>) => (
  <Card
    common={props} around={around} title={<><Mark status={props.status} /> {joined(props.id && `Task ${props.id}`, cut(props.description)) || "Task"}</>}
    aside={joined(inWords(props.status), seconds(props.seconds))}
  >
    <dl>
      <Pair name="Priority" value={String(props.priority ?? "")} />
      <Pair name="After" value={props.depends_on.join(", ")} />
      <Pair name="Attempts" value={String(props.attempts ?? "")} />
      <Pair name="Proof" value={props.evidence.join(", ")} />
    </dl>
    <Lines label="Done if:" of={props.acceptance_criteria} />
    {unsaid(props.result, around) && <Words>{unsaid(props.result, around)}</Words>}
  </Card>
);

export const Handoff = ({ props, around }: Shown<Props.Handoff>) => (
  <Card
    common={props} around={around} title={[props.source, props.target].filter(Boolean).join(" → ") || "Hand-over"}
    aside={inWords(props.status)} empty="No reason is given."
  >
    {props.reason && <Words>{props.reason}</Words>}
    {props.summary && <Words soft>{props.summary}</Words>}
  </Card>
);
