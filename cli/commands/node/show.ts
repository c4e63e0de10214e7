import type { Node } from "../../../protocol/runner.ts";
import { count, showTime } from "../../output/output.ts";

/** A node's state in words. */
export function showNodeState({ live, draining, seenAt }: Node): string {
  const silent = live ? [] : [`silent since ${showTime(seenAt)}`];
  const states = draining ? ["draining", ...silent] : silent;
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
