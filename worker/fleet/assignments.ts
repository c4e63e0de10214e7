import type { Assignment } from "../../protocol/runner.ts";
import type { Catalogue } from "../catalogue/catalogue.ts";
import { assignWorkers } from "../core/parallelism.ts";

type Shares = Assignment["workers"];

/** What each node that lives is to run, as the catalogue had it at one time. */
export class Assignments {
  readonly #shares: ReadonlyMap<string, Shares>;
  readonly #live: ReadonlySet<string>;

  constructor(shares: ReadonlyMap<string, Shares>, live: ReadonlySet<string>) {
    this.#shares = shares;
    this.#live = live;
  }

  /** Nothing for a node that is being drained; undefined: the node did not live, as far as was known. */
  of(node: string): Shares | undefined {
    return this.#live.has(node) ? (this.#shares.get(node) ?? []) : undefined;
  }
}

/** Asks for them. `marksIdle`: says of pipelines that they have no job, of which only nodes hear that are woken when one has. */
export async function readAssignments(
  { nodes, pipelines, jobs }: Pick<Catalogue, "nodes" | "pipelines" | "jobs">,
  { now, marksIdle }: { now: number; marksIdle: boolean },
): Promise<Assignments> {
  const [live, all, busy] = await Promise.all([
    nodes.alive(now),
    pipelines.list(),
    marksIdle ? jobs.busyPipelines() : undefined,
  ]);
  const isIdle = (pipeline: string) => busy !== undefined && !busy.has(pipeline);
  const shares = [...assignWorkers({ pipelines: all, nodes: live })].map(
    ([node, shares]) =>
      [
        node,
        shares.map((share) => ({ ...share, ...(isIdle(share.pipeline) && { idle: true as const }) })),
      ] as const,
  );
  return new Assignments(new Map(shares), new Set(live.map(({ name }) => name)));
}
