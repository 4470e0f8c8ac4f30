// The props as components get them: checked against props.schema.json, every field there.
import type { ReactNode } from "react";

export type TaskStatus =
  | "pending" | "in_progress" | "completed" | "failed" | "skipped" | "cancelled" | "blocked";
export type Json = Record<string, unknown>;

export interface Common { text: string; streaming: boolean; error: string }
export interface Todo {
  id: string; description: string; status: TaskStatus; priority: number | null;
  depends_on: string[]; result: string;
}
export interface Step extends Todo { tool: string }
export interface Verdict { id: string; completed: boolean | null; feedback: string; evidence: string[] }
export interface Resource {
  name: string; uri: string; description: string; mime_type: string; size: number | null;
  details: Record<string, string | number | boolean | null>;
}
export interface Item { type: string; value: unknown; component: string; props: Json }

export interface Planner extends Common {
  summary: string; todos: Todo[]; missing_information: string[]; needs_more_planning: boolean;
}
export interface Executor extends Common {
  task: string; description: string; status: TaskStatus; summary: string; attempt: number | null;
}
export interface Verifier extends Common {
  passed: boolean | null; feedback: string; tasks: Verdict[]; improvements: string[];
}
export interface Summary extends Common {
  status: string; reason: string; answer: string; unmet: string[]; warnings: string[];
}
export interface TodoList extends Common { title: string; todos: Todo[] }
export interface FlowGraph extends Common { title: string; steps: Step[] }
export interface ToolCall extends Common {
  id: string; task: string; tool: string; server: string; status: string; arguments: Json;
  result: string; reason: string; reused_from: string; seconds: number | null; content: Item[];
}
export interface Approval extends Common {
  id: string; kind: string; description: string; action: { name: string; args: Json };
  decisions: string[]; answered: string;
}
export interface ResourceList extends Common { title: string; resources: Resource[] }
export interface ResourceInfo extends Common, Resource {}
export interface TaskInfo extends Common, Todo {
  acceptance_criteria: string[]; evidence: string[]; attempts: number | null; seconds: number | null;
}
export interface Handoff extends Common {
  source: string; target: string; reason: string; status: TaskStatus; summary: string;
}

/** What a component sends back: `answer` is what the graph's question is resumed with. */
export interface Action { type: "component-action"; component: string; answer: Json }

/** What surrounds a component on its page. */
export interface Surroundings {
  /** Takes actions; absent where nobody listens, or the question is no longer open. */
  act?: (action: Action) => void;
  /** The run is going on, so what streams still grows and no answer is taken. */
  live: boolean;
  /** The words of the message above: a component does not say them again. */
  said: string;
  /** Draws another component inside this one, checked like any. */
  draw: (name: string, props: unknown) => ReactNode;
}
