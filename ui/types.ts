// The props as components get them: checked against props.schema.json, every field there.
export type Json = Record<string, unknown>;

/** What every component may have. */
export interface Common { streaming?: boolean; error?: string }
export interface Todo { id: string; description: string; status: string; depends_on: string[] }
export interface Step extends Todo {
  tool: string; items: number; done: number; attempts: number; seconds: number; result: string;
}
export interface Judged { id: string; completed: boolean; feedback: string }
export interface Resource {
  name: string; uri: string; description: string; mime_type: string; details: Json;
}

export interface Planner extends Common { summary: string; todos: Step[]; missing_information: string[] }
export interface Executor extends Common {
  task: string; description: string; status: string; attempt: number; summary: string;
}
export interface Verifier extends Common {
  passed: boolean | null; feedback: string; tasks: Judged[]; improvements: string[];
}
export interface Summary extends Common {
  status: string; reason: string; done: number; total: number; unmet: string[]; warnings: string[];
}
export interface TodoList extends Common { todos: Todo[] }
export interface FlowGraph extends Common { steps: Step[] }
export interface ToolCall extends Common {
  id: string; tool: string; task: string; arguments: Json; status: string; reason: string;
  result: string; seconds: number; reused_from: string;
}
export interface Approval extends Common {
  id: string; kind: string; description: string; action: { name: string; args: Json }; answered: string;
}
export interface Proposal extends Common { id: string; lines: string[]; answered: string }
export interface Receipt extends Common { lines: { kind: string; text: string }[] }
export interface ResourceList extends Common { title: string; resources: Resource[] }
export interface ResourceInfo extends Common, Resource {}
export interface TaskInfo extends Common { id: string; title: string; description: string; status: string; details: Json }
export interface Handoff extends Common {
  source: string; target: string; reason: string; summary: string; reference: string; status: string;
}

/** What a component sends back: `answer` is what the graph's question is resumed with. */
export interface Action { type: "component-action"; component: string; answer: Json }

/** What surrounds a component on its page. */
export interface Surroundings {
  /** Takes actions; absent where nobody listens, or the question is no longer open. */
  act?: (action: Action) => void;
  /** Sends a message of the customer. */
  say?: (words: string) => void;
  /** The open question it is about, as the graph asks it. */
  question?: Json;
  /** The run is going on, so what streams still grows and no answer is taken. */
  live: boolean;
  /** The words of the message above: a component does not say them again. */
  said: string;
  /** The names of the other components under that message. */
  beside: string[];
  /** The ids of the calls that are drawn there. */
  calls: string[];
}
