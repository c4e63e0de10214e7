import { decodeTime, isValid, monotonicFactory } from "ulid";
import { bucketName } from "../../protocol/names.ts";
import { QUIET_TTL_MS } from "../../protocol/runner.ts";
import { openBlobStore } from "../blobs/stores.ts";
import type { BranchApi } from "../branch/contract/api.ts";
import { type Catalogue, openCatalogue } from "../catalogue/catalogue.ts";
import { isAlive } from "../catalogue/nodes.ts";
import { ableNodes, assignWorkers, type LiveNode, workerCount } from "../core/parallelism.ts";
import { type Env, located, objectsOf, readConfig } from "../env.ts";
import { openFleet } from "../fleet/door.ts";
import { clientOf } from "../objects/facets.ts";
import type { Peers, PipelineRoom } from "./context.ts";

/** How long an answer is used again. */
const FRESH_MS = 2_000;

export function openPeers(env: Env): Peers {
  const catalogue = openCatalogue(env.DB);
  const live = new LiveNodes(catalogue);
  const next = monotonicFactory();
  const read = readConfig(env);
  const now = (): number => Date.now();
  return {
    catalogue,
    blobs: openBlobStore(env),
    // A gateway whose variables are wrong refuses every request. What it finds it keeps.
    keptJobs: read.ok ? read.config.keptJobs : Number.MAX_SAFE_INTEGER,
    now,
    branch: (address, place) =>
      clientOf<BranchApi>(objectsOf(env, "BRANCH").getByName(bucketName(address), located(env, place))),
    id: (after) => {
      const id = next(now());
      const isAfter = after === undefined || id > after || !isValid(after);
      return isAfter ? id : next(decodeTime(after) + 1);
    },
    nodes: () => live.nodes(now()),
    room: (pipeline) => live.room(pipeline, now()),
    fleet: openFleet(env),
  };
}

type Nodes = Awaited<ReturnType<Catalogue["nodes"]["list"]>>;
type Pipelines = Awaited<ReturnType<Catalogue["pipelines"]["list"]>>;

/** The nodes that live, and what they have room for if somebody wants to know. */
class LiveNodes {
  readonly #live: Asked<readonly LiveNode[]>;
  readonly #all: Asked<{ readonly nodes: Nodes; readonly pipelines: Pipelines } | undefined>;

  constructor(catalogue: Pick<Catalogue, "nodes" | "pipelines">) {
    this.#live = new Asked([], (now) => catalogue.nodes.alive(now));
    this.#all = new Asked(undefined, async (now) => {
      const [nodes, pipelines] = await Promise.all([
        catalogue.nodes.list(now - QUIET_TTL_MS),
        catalogue.pipelines.list(),
      ]);
      return { nodes: nodes.filter((node) => isAlive(node, now)), pipelines };
    });
  }

  nodes(now: number): Promise<readonly LiveNode[]> {
    return this.#live.at(now);
  }

  async room(pipeline: string, now: number): Promise<PipelineRoom | undefined> {
    const { nodes = [], pipelines = [] } = (await this.#all.at(now)) ?? {};
    // The catalogue hears of a pipeline a moment after it was made.
    const demand = pipelines.find(({ name, state }) => name === pipeline && state === "active");
    if (!demand || ableNodes(nodes, demand.container).length === 0) return undefined;
    const spread = assignWorkers({ pipelines, nodes });
    return {
      wanted: workerCount(demand, nodes),
      nodes: nodes.flatMap((node) => {
        const share = spread.get(node.name)?.find((each) => each.pipeline === pipeline);
        if (!share) return [];
        const running = node.work.reduce((sum, each) => sum + each.running, 0);
        const own = node.work.find((each) => each.pipeline === pipeline)?.running ?? 0;
        return [{ workers: share.count, running, own, maxRunning: node.bounds?.running }];
      }),
    };
  }
}

/** What the catalogue says. Asked at most every FRESH_MS; if it can't be reached, the last answer stands. */
class Asked<Answer> {
  readonly #ask: (now: number) => Promise<Answer>;
  #last: Answer;
  #asked: Promise<Answer> | undefined;
  #askedAt = 0;

  constructor(first: Answer, ask: (now: number) => Promise<Answer>) {
    this.#last = first;
    this.#ask = ask;
  }

  at(now: number): Promise<Answer> {
    // Also one of a time that is still to come, since the clock was set back.
    if (!this.#asked || Math.abs(now - this.#askedAt) >= FRESH_MS) {
      this.#askedAt = now;
      this.#asked = this.#askAnew(now);
    }
    return this.#asked;
  }

  async #askAnew(now: number): Promise<Answer> {
    try {
      this.#last = await this.#ask(now);
    } catch (error) {
      console.warn("the catalogue can't be asked for the live nodes and what they have room for", error);
    }
    return this.#last;
  }
}
