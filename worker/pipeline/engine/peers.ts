import { decodeTime, isValid, monotonicFactory } from "ulid";
import { bucketName } from "../../../protocol/names.ts";
import { NODE_TTL_MS } from "../../../protocol/runner.ts";
import { openBlobStore } from "../../blobs/stores.ts";
import type { BranchApi } from "../../branch/contract.ts";
import { type Catalogue, openCatalogue } from "../../catalogue/catalogue.ts";
import { assignWorkers, demandOf, isAble } from "../../core/parallelism.ts";
import { type Env, readConfig } from "../../env.ts";
import type { Fleet, NodeRoom, Peers } from "../context.ts";

/** How long an answer is used again. */
const FRESH_MS = 2_000;

/** The real ones. */
export function openPeers(env: Env): Peers {
  const catalogue = openCatalogue(env.DB);
  const nodes = new LiveNodes(catalogue.nodes);
  const rooms = new Rooms(catalogue);
  const next = monotonicFactory();
  const read = readConfig(env);
  const now = (): number => Date.now();
  return {
    catalogue,
    blobs: openBlobStore(env),
    // A gateway whose variables are wrong refuses every request. What it finds it keeps.
    keptJobs: read.ok ? read.config.keptJobs : Number.MAX_SAFE_INTEGER,
    now,
    // The stub's type wraps every answer for RPC; what comes over it is the plain data of the contract.
    branch: (address) => env.BRANCH.getByName(bucketName(address)) as unknown as BranchApi,
    id: (after) => {
      const id = next(now());
      const isAfter = after === undefined || id > after || !isValid(after);
      return isAfter ? id : next(decodeTime(after) + 1);
    },
    fleet: () => nodes.count(now()),
    room: (pipeline) => rooms.of(pipeline, now()),
  };
}

/** How many nodes live. Asked of the catalogue at most every FRESH_MS; if it can't be reached, the last answer stands. */
class LiveNodes {
  readonly #nodes: Catalogue["nodes"];
  #asked: Promise<Fleet> | undefined;
  #askedAt = 0;
  #last: Fleet = { live: 0, draining: 0, processes: [] };

  constructor(nodes: Catalogue["nodes"]) {
    this.#nodes = nodes;
  }

  async count(now: number): Promise<Fleet> {
    if (!this.#asked || now - this.#askedAt >= FRESH_MS) {
      this.#askedAt = now;
      this.#asked = this.#ask(now);
    }
    return this.#asked;
  }

  async #ask(now: number): Promise<Fleet> {
    try {
      const nodes = await this.#nodes.seenSince(now - NODE_TTL_MS);
      const live = nodes.filter((node) => !node.draining);
      const processes = live.filter((node) => !isAble(node, "required")).map(({ name }) => name);
      this.#last = { live: live.length, draining: nodes.length - live.length, processes };
    } catch (error) {
      console.warn("the catalogue can't be asked for live nodes", error);
    }
    return this.#last;
  }
}

interface Known {
  readonly nodes: Awaited<ReturnType<Catalogue["nodes"]["list"]>>;
  readonly pipelines: Awaited<ReturnType<Catalogue["pipelines"]["list"]>>;
}

/** What the nodes have room for. Asked of the catalogue at most every FRESH_MS, and only if somebody wants to know. */
class Rooms {
  readonly #catalogue: Pick<Catalogue, "nodes" | "pipelines">;
  #asked: Promise<Known | undefined> | undefined;
  #askedAt = 0;

  constructor(catalogue: Pick<Catalogue, "nodes" | "pipelines">) {
    this.#catalogue = catalogue;
  }

  async of(pipeline: string, now: number): Promise<NodeRoom[] | undefined> {
    if (!this.#asked || now - this.#askedAt >= FRESH_MS) {
      this.#askedAt = now;
      this.#asked = this.#ask(now);
    }
    const known = await this.#asked;
    const demand = known && demandOf(known);
    // The catalogue hears of a pipeline a moment after it was made.
    if (!demand?.pipelines.some(({ name }) => name === pipeline)) return undefined;
    const spread = assignWorkers(demand);
    return known?.nodes.flatMap((node) => {
      const share = spread.get(node.name)?.find((each) => each.pipeline === pipeline);
      if (!share) return [];
      const running = node.work.reduce((sum, each) => sum + each.running, 0);
      const own = node.work.find((each) => each.pipeline === pipeline)?.running ?? 0;
      return [{ workers: share.count, running, own, maxRunning: node.bounds?.running }];
    });
  }

  async #ask(now: number): Promise<Known | undefined> {
    const since = now - NODE_TTL_MS;
    try {
      const [nodes, pipelines] = await Promise.all([
        this.#catalogue.nodes.list(since),
        this.#catalogue.pipelines.list(),
      ]);
      return { nodes: nodes.filter(({ seenAt }) => seenAt >= since), pipelines };
    } catch (error) {
      console.warn("the catalogue can't be asked what the nodes have room for", error);
      return undefined;
    }
  }
}
