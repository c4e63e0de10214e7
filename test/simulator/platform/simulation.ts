import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Branch } from "../../../worker/branch/branch.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import { ReadCache } from "../../../worker/branch/tree/read-cache.ts";
import entry from "../../../worker/index.ts";
import { clientOf } from "../../../worker/objects/facets.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { Pipeline } from "../../../worker/pipeline/pipeline.ts";
import { SimulatedBlobCache } from "./blob-cache.ts";
import { SimulatedD1 } from "./d1.ts";
import { Databases } from "./database.ts";
import { type Faults, NO_FAULTS } from "./faults.ts";
import { SimulatedGateway } from "./gateway.ts";
import { replaceGlobals } from "./globals.ts";
import { SimulatedNamespace } from "./objects.ts";
import { SimulatedR2 } from "./r2.ts";
import { Remote } from "./remote.ts";
import { type S3Request, signedRequest } from "./sign.ts";
import { addStreams } from "./streams.ts";
import { type Actor, runAs, World } from "./world.ts";

/** When a simulation begins: 2026-03-01, at noon. */
const BEGINNING = Date.UTC(2026, 2, 1, 12);

const MIGRATIONS = join(import.meta.dirname, "../../../migrations");
const SCHEMA = readdirSync(MIGRATIONS)
  .sort()
  .map((file) => readFileSync(join(MIGRATIONS, file), "utf8"));

/** All simulations of the process have them one after the other. */
const DATABASES = { branches: new Databases(), pipelines: new Databases(), catalogue: new Databases() };

replaceGlobals();
addStreams();

const ROOT = { keyId: "simulated-root", secret: "simulated-root-secret" };

/** Whoever is no object: it writes nothing, and never ends. */
export class Client implements Actor {
  readonly world: World;
  readonly isAlive = true;

  constructor(world: World) {
    this.world = world;
  }

  async flushed(): Promise<void> {}
}

/** The gateway's objects and stores in one process, by the classes that it runs on workerd. */
export class Simulation {
  readonly world: World;
  readonly branches: SimulatedNamespace;
  readonly pipelines: SimulatedNamespace;
  readonly catalogue: SimulatedD1;
  readonly blobs: SimulatedR2;
  readonly blobCache: SimulatedBlobCache;
  readonly gateway: SimulatedGateway;
  /** Each request is answered by an isolate of its own, which has seen nothing yet. */
  forgets = false;
  readonly #env: Record<string, unknown>;

  constructor({
    seed,
    faults = () => NO_FAULTS,
    branch = Branch,
    pipeline = Pipeline,
    vars = {},
  }: {
    seed: number;
    /** The classes of branches and pipelines, which may be ones with other limits. */
    branch?: typeof Branch;
    pipeline?: typeof Pipeline;
    faults?: (world: World) => Faults;
    /** Variables of the Worker, beside those that it must have. */
    vars?: Readonly<Record<string, string>>;
  }) {
    const world = new World({ seed, now: BEGINNING });
    const broken = faults(world);
    const common = { world, faults: broken, env: () => this.#env };
    this.world = world;
    const { branches, pipelines, catalogue } = DATABASES;
    this.branches = new SimulatedNamespace({ ...common, databases: branches, type: () => branch as never });
    this.pipelines = new SimulatedNamespace({
      ...common,
      databases: pipelines,
      type: () => pipeline as never,
    });
    this.catalogue = new SimulatedD1({
      remote: new Remote({ world, faults: broken, store: "D1" }),
      databases: catalogue,
      schema: SCHEMA,
    });
    this.blobs = new SimulatedR2(new Remote({ world, faults: broken, store: "R2" }));
    this.blobCache = new SimulatedBlobCache({
      ...{ world, env: common.env },
      remote: new Remote({ world, faults: broken, store: "cache" }),
    });
    world.entrypoints.Blobs = this.blobCache;
    this.gateway = new SimulatedGateway(common);
    this.#env = {
      BRANCH: this.branches,
      PIPELINE: this.pipelines,
      // No node has a socket here: who rings is heard by nobody.
      FLEET: { getByName: () => ({ call: async () => {} }) },
      DB: this.catalogue,
      BLOBS: this.blobs,
      // As in the embedded gateway, entry and objects are in one process. Nothing else is asked of the host without its token.
      HOST: {},
      SLUICE_ACCESS_KEY_ID: ROOT.keyId,
      SLUICE_SECRET_ACCESS_KEY: ROOT.secret,
      SLUICE_REQUEST_LOG: "off",
      SLUICE_BLOB_CACHE: "off",
      SLUICE_ROW_CACHE: "off",
      ...vars,
    };
  }

  /** Does something as a client, while the world goes on. Resolves with what comes of it. */
  async as<T>(work: (client: Client) => Promise<T>): Promise<T> {
    const client = new Client(this.world);
    const done = { is: false };
    const result = runAs(client, () => work(client)).finally(() => {
      done.is = true;
    });
    result.catch(() => {});
    await this.world.run({ until: Number.POSITIVE_INFINITY, stop: () => done.is });
    if (!done.is) throw new Error("nothing is left to happen, and the work is not done");
    return await result;
  }

  /** A branch as a client has it. */
  branch(bucket: string): BranchApi {
    return clientOf<BranchApi>(this.branches.getByName(bucket));
  }

  /** A pipeline as a client has it. */
  pipeline(name: string): PipelineApi {
    return clientOf<PipelineApi>(this.pipelines.getByName(name));
  }

  /** A request of a client that signs with the root key, by the entry of the Worker. */
  async s3(request: S3Request): Promise<Response> {
    const sent = signedRequest(request, { ...ROOT, now: this.world.clock });
    if (request.isUnsigned) sent.headers.delete("authorization");
    // What an isolate knows belongs to its bindings.
    const env = this.forgets ? { ...this.#env } : this.#env;
    return await entry.fetch(sent as never, env as never);
  }

  /** Lets so much time pass. */
  async pass(ms: number): Promise<void> {
    await this.world.run({ until: this.world.now + ms });
  }

  /** Gives back what it has of the process. */
  close(): void {
    for (const { storage } of [...this.branches.all(), ...this.pipelines.all()]) storage.close();
    // The next simulation in this process has other branches of these names.
    for (const { name } of this.branches.all()) new ReadCache().share(name);
    this.catalogue.close();
  }
}
