// The script that a page loads: it knows our components, takes others, and puts one into its page.
import { createElement, type FunctionComponent } from "react";
import { useStreamContext } from "@langchain/langgraph-sdk/react-ui";
import { Approval } from "./approval.tsx";
import * as shown from "./components.tsx";
import * as parts from "./parts.tsx";
import { Boundary, get, names, register, render } from "./registry.tsx";
import type { Action, Surroundings } from "./types.ts";

register("planner-response", shown.PlannerResponse);
register("executor-response", shown.ExecutorResponse);
register("verifier-response", shown.VerifierResponse);
register("summary-response", shown.SummaryResponse);
register("todo-list", shown.TodoList);
register("flow-graph", shown.FlowGraph);
register("tool-call", shown.ToolCall);
register("approval", Approval);
register("proposal", shown.Proposal);
register("receipt", shown.Receipt);
register("resource-list", shown.ResourceList);
register("resource-info", shown.ResourceInfo);
register("task-info", shown.TaskInfo);
register("handoff", shown.Handoff);

type Given = Record<string, unknown>;
type Question = { id?: string; value?: Given };

/** What the page's stream says of a component: whether the run goes on, and which question it may answer. */
function useAround(props: Given): Partial<Surroundings> {
  const stream = useStreamContext();
  const ours = stream.meta?.ui;
  const about = ours?.metadata?.message_id;
  // While a run goes on, the page's lists may have holes.
  const message = about && stream.messages?.find((one) => one?.id === about);
  const beside = (stream.values?.ui ?? []).filter((one) => one && one.id !== ours?.id && one.metadata?.message_id === about);
  // Each turn counts its calls anew: a question is about the newest of a name.
  const newest = (stream.values?.ui ?? []).filter((one) => one?.name === ours?.name && one?.props?.id === props.id).at(-1);
  const asked = newest && newest.id !== ours?.id ? undefined : (stream.interrupts ?? []).find((one) => one && isAbout(one, props));
  const streamed = { streamMode: ["values"], streamSubgraphs: true, streamResumable: true };
  const submit = ({ answer }: Action) => {
    const resume = asked!.id ? { [asked!.id]: answer } : answer;
    void stream.submit({}, { command: { resume }, ...streamed });
  };
  const say = (words: string) => void stream.submit({ messages: [{ type: "human", content: words }] }, streamed);
  return {
    act: asked && submit, say, question: asked?.value, live: Boolean(stream.isLoading),
    said: message ? textOf(message.content) : "", beside: beside.map(({ name }) => name),
    calls: beside.filter(({ name }) => name === "tool-call").map(({ props }) => String(props.id)),
  };
}

/** A question names its call; one about a plan has the plan among its words. */
function isAbout({ id, value }: Question, { id: given, description, answered }: Given): boolean {
  if (answered) return false;
  if (given && (id === given || value?.id === given)) return true;
  return Boolean(description) && String(value?.description ?? "").includes(String(description));
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  return Array.isArray(content) ? content.map((block) => String(block?.text ?? "")).join(" ") : "";
}

const live = new Map<string, FunctionComponent<Given>>();

/** One component of the page a name, so that it keeps what was typed into it when it is drawn again. */
function onPage(name: string): FunctionComponent<Given> {
  const Around = ({ props }: { props: Given }) => render(name, props, useAround(props));
  const Live = live.get(name) ?? ((props: Given) => <Boundary name={name} props={props}><Around props={props} /></Boundary>);
  live.set(name, Live);
  return Live;
}

/** Puts a component where LoadExternalComponent waits for it. */
function mount(name: string, shadowRootId: string): void {
  const root = document.getElementById(shadowRootId)?.shadowRoot;
  if (!root) return;
  for (const script of root.querySelectorAll("script")) script.remove();
  const place = root.appendChild(document.createElement("div"));
  (globalThis as any)[Symbol.for("LGUI_EXT_STORE")].respond(shadowRootId, onPage(name), place);
}

(globalThis as any)[Symbol.for("LOOPWRIGHT_UI")] ??= { register, get, names, render, mount, parts, createElement };
