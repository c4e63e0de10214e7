import type { NodeRoom, PipelineRoom } from "../context.ts";

export interface Shortage {
  /** In words. */
  readonly text: string;
  /** Whether nothing of the pipeline can run as long as it is so. */
  readonly isStill: boolean;
}

/**
 * What the fleet lacks for a pipeline to work as its specification says; null if nothing. What is open can be
 * less than the pipeline could run at once: then it lacks nothing.
 */
export function shortage({
  wanted,
  open,
  nodes,
}: PipelineRoom & {
  /** Datums that have not ended. */
  readonly open: number;
}): Shortage | null {
  const workers = sum(nodes, (node) => node.workers);
  const atOnce = sum(nodes, (node) => Math.min(node.workers, node.maxRunning ?? Number.POSITIVE_INFINITY));
  const lacks: string[] = [];
  if (workers < Math.min(wanted, open)) {
    const noun = wanted === 1 ? "worker" : "workers";
    lacks.push(`wants ${wanted} ${noun}, the fleet has room for ${workers}`);
  }
  if (atOnce < Math.min(workers, open)) lacks.push(`wants ${wanted} at once, its nodes run ${atOnce}`);
  if (lacks.length > 0) return { text: lacks.join("; "), isStill: atOnce === 0 };
  const full = nodes.every(({ running, maxRunning }) => maxRunning !== undefined && running >= maxRunning);
  if (!full || sum(nodes, ({ own }) => own) >= Math.min(workers, open)) return null;
  const running = sum(nodes, (node) => node.running);
  return {
    text: `its nodes are busy: they run ${running} commands at once, of all pipelines`,
    isStill: true,
  };
}

function sum(nodes: readonly NodeRoom[], of: (node: NodeRoom) => number): number {
  return nodes.reduce((total, node) => total + of(node), 0);
}
