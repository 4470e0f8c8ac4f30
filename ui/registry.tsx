// Components by name: registered at run time, drawn with checked props, as text where that fails.
import { Component, type ReactNode } from "react";
import { Card, Code, Words } from "./parts.tsx";
import { read, Unfit } from "./schema.ts";
import type { Surroundings } from "./types.ts";

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- each component has its own props
export type Drawn = (given: { props: any; around: Surroundings }) => ReactNode;

const known = new Map<string, Drawn>();

/** Adds a component, or puts another in the place of one. */
export function register(name: string, component: Drawn): void {
  known.set(name, component);
}

export const get = (name: string): Drawn | undefined => known.get(name);

export const names = (): string[] => [...known.keys()];

const ALONE: Surroundings = { live: true, said: "", beside: [], calls: [] };

/** Draws a component; nothing where name or props are missing. */
export function render(name: unknown, props: unknown, around: Partial<Surroundings> = {}): ReactNode {
  if (typeof name !== "string" || !name || props === null || props === undefined) return null;
  const all = { ...ALONE, ...around };
  const Found = get(name);
  if (!Found) return <AsText problem={`There is no component “${name}”.`} props={props} around={all} />;
  try {
    const checked = read(name, props);
    return <Boundary name={name} props={props} around={all}><Found props={checked} around={all} /></Boundary>;
  } catch (error) {
    if (!(error instanceof Unfit)) throw error;
    return <AsText problem={`“${name}” cannot show this: ${error.message}.`} props={props} around={all} />;
  }
}

/** The plain words of a component, else its props as they are. */
function AsText({ problem, props, around }: { problem: string; props: unknown; around: Surroundings }) {
  const { text } = props as { text?: unknown };
  return (
    <Card common={{}} around={around} title={<span className="error">{problem}</span>}>
      {typeof text === "string" && text.trim() ? <Words>{text}</Words> : <Code>{props}</Code>}
    </Card>
  );
}

type Inside = { name: string; props: unknown; around?: Surroundings; children: ReactNode };

/** A component that throws is shown as text, until it gets other props. */
export class Boundary extends Component<Inside, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override componentDidUpdate(before: Inside) {
    if (this.state.failed && before.props !== this.props.props) this.setState({ failed: false });
  }

  override render() {
    const { name, props, around = ALONE, children } = this.props;
    return this.state.failed ? <AsText problem={`“${name}” failed.`} props={props} around={around} /> : children;
  }
}
