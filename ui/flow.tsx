// The steps of a flow as a drawing: each in the column after the last step it waits for.
import { cut, inWords, said } from "./parts.tsx";
import type { Step } from "./types.ts";

const WIDTH = 168;
const HEIGHT = 46;
const [GAP_X, GAP_Y] = [44, 14];
const COLORS: Record<string, string> = {
  completed: "var(--good)", failed: "var(--bad)", in_progress: "var(--busy)", blocked: "var(--warn)",
};

type Place = { step: Step; x: number; y: number };

export function Flow({ steps }: { steps: Step[] }) {
  const places = placed(steps);
  const width = Math.max(...places.map(({ x }) => x)) + WIDTH + 2;
  const height = Math.max(...places.map(({ y }) => y)) + HEIGHT + 2;
  const byId = new Map(places.map((place) => [place.step.id, place]));
  const edges = places.flatMap((to) => to.step.depends_on.map((id) => ({ from: byId.get(id), to })));
  return (
    <div className="scroll">
      <svg width={width} height={height} role="img" aria-label={`${steps.length} steps`}>
        {edges.map(({ from, to }, place) => from && <path key={place} d={curve(from, to)} fill="none" stroke="currentColor" opacity=".35" />)}
        {places.map((place, index) => <Box key={index} {...place} />)}
      </svg>
    </div>
  );
}

function Box({ step, x, y }: Place) {
  const color = said(COLORS, step.status) ?? "currentColor";
  return (
    <g transform={`translate(${x} ${y})`} opacity={step.status === "skipped" || step.status === "cancelled" ? 0.5 : 1}>
      <title>{cut(`${step.description} (${inWords(step.status)})`)}</title>
      <rect width={WIDTH} height={HEIGHT} rx="9" fill="var(--soft)" stroke={color} />
      <rect width="4" height={HEIGHT - 16} x="8" y="8" rx="2" fill={color} />
      <text x="20" y="19" fontSize="12" fontWeight="600" fill="currentColor">{short(step.id, 20)}</text>
      <text x="20" y="35" fontSize="11" opacity=".7" fill="currentColor">{short(step.tool || step.description, 24)}</text>
    </g>
  );
}

const short = (text: string, most: number) => ([...text.slice(0, 4 * most)].length > most ? `${[...text.slice(0, 4 * most)].slice(0, most - 1).join("")}…` : text);

function curve(from: Place, to: Place): string {
  const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
  const bend = Math.max(GAP_X, Math.abs(x2 - x1)) / 2;
  return `M${x1} ${y1} C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
}

/** Columns by the longest way to a step; a circle, which no sound plan has, ends after as many rounds as steps. */
function placed(steps: Step[]): Place[] {
  const column = new Map(steps.map(({ id }) => [id, 0]));
  for (let round = 0, moved = true; moved && round < steps.length; round++) {
    moved = false;
    for (const { id, depends_on } of steps) {
      const after = 1 + Math.max(-1, ...depends_on.map((other) => column.get(other) ?? -1));
      if (after > column.get(id)! && after < steps.length) {
        column.set(id, after);
        moved = true;
      }
    }
  }
  const filled: number[] = [];
  return steps.map((step) => {
    const at = column.get(step.id)!;
    const row = (filled[at] = (filled[at] ?? 0) + 1) - 1;
    return { step, x: 1 + at * (WIDTH + GAP_X), y: 1 + row * (HEIGHT + GAP_Y) };
  });
}
