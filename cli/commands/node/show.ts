import type { Node } from "../../../protocol/runner.ts";
import { count, showTime } from "../../output/output.ts";

/** A node's state in words. */
export function showNodeState({ live, draining, seenAt }: Node): string {
  const silent = live ? [] : [`silent since ${showTime(seenAt)}`];
  const states = draining ? ["draining", ...silent] : silent;
  return states.length === 0 ? "live" : states.join(", ");
}

/** The same without since when. */
export function shortNodeState({ live, draining }: Node): string {
  const states = [...(draining ? ["draining"] : []), ...(live ? [] : ["silent"])];
  return states.length === 0 ? "live" : states.join(", ");
}

/** How many commands run on a node at most, and how many workers it has. "-": its runner is of a release that does not say. */
export function showBounds({ bounds }: Node): [running: string, workers: string] {
  return bounds ? [String(bounds.running), String(bounds.workers)] : ["-", "-"];
}

/** What runs on a node, in words. "-" for a silent node: nothing is known of it. */
export function showWork({ live, work }: Node): string {
  if (!live || work.length === 0) return "-";
  return work
    .map(
      ({ pipeline, workers, running, trouble }) =>
        `${pipeline}: ${count(running, "datum")} in ${count(workers, "worker")}${trouble === undefined ? "" : `, in trouble: ${trouble}`}`,
    )
    .join("; ");
}

/** The pipelines of which something runs on a node, or that are in trouble there, and how many workers wait for work. */
export function shortWork({ live, work }: Node): string {
  if (!live) return "";
  const idle = work.reduce((sum, { workers, running }) => sum + Math.max(0, workers - running), 0);
  const busy = work
    .filter(({ running, trouble }) => running > 0 || trouble !== undefined)
    .map(
      ({ pipeline, running, trouble }) =>
        `${pipeline}: ${count(running, "datum")}${trouble === undefined ? "" : `, in trouble: ${trouble}`}`,
    );
  return [...busy, ...(idle > 0 ? [count(idle, "idle worker")] : [])].join("; ");
}
