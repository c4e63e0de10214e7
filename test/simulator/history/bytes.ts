import type { Content } from "../../../worker/blobs/content.ts";
import type { BranchApi } from "../../../worker/branch/contract/api.ts";
import { eraseThroughForks } from "../../../worker/erase.ts";
import type { Simulation } from "../platform/simulation.ts";
import { ended, endNowAndThen, insist, isMishap, mishapSimulation } from "./mishaps.ts";
import { idOf } from "./steps.ts";
import { Tally } from "./tally.ts";

/** Clients, and steps of each. */
const CLIENTS = 3;
const STEPS = 20;
const REPO = "photos";
const BRANCHES = ["master", "one", "two"];
const PATHS = ["a", "b", "c"];
const KINDS = [
  ...(["put", "put", "put", "copy", "copy", "copy", "copy"] as const),
  ...(["erase", "erase", "erase", "fork", "fork", "delete", "destroy"] as const),
];
/** How long nothing goes wrong, nor is anything done, before all is looked at: longer than any grace; milliseconds. */
const REST_MS = 60 * 24 * 60 * 60_000;

/** A version that was erased, as the branch said. */
interface Erased {
  readonly bucket: string;
  readonly path: string;
  readonly version: string;
}

/**
 * Clients write files with blobs of their own to branches that are forked, erased from and deleted meanwhile. In the end each file of
 * each commit has its bytes, no erased version is shown, and once all branches are deleted nothing is left.
 */
export async function runBytes(seed: number, tally = new Tally()): Promise<string[]> {
  const { simulation, calm } = mishapSimulation(seed, tally);
  const history = new BytesHistory(simulation, tally);
  await simulation.as(async () => {
    await insist(() => simulation.branch(bucketOf("master")).lifecycle.create());
    endNowAndThen(simulation, { calm, tally });
    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      for (let n = 0; n < STEPS; n++) await history.step(`${client}.${n}`);
    });
    await Promise.all(clients);
  });
  calm.is = true;
  await simulation.pass(REST_MS);
  const faults = await simulation.as(() => history.faults());
  await simulation.as(() => history.destroyAll());
  await simulation.pass(REST_MS);
  faults.push(...history.remains(), ...ended(simulation));
  simulation.close();
  return faults;
}

class BytesHistory {
  readonly #simulation: Simulation;
  readonly #tally: Tally;
  readonly #erased: Erased[] = [];
  /** Blobs whose put was answered. Of others nobody may know, if a client died: the orphan scan is for these. */
  readonly #named = new Set<string>();
  /** By digest, what was written. */
  readonly #texts = new Map<string, string>();

  constructor(simulation: Simulation, tally: Tally) {
    this.#simulation = simulation;
    this.#tally = tally;
  }

  /** One step of a client, as the seed has it. What is refused, or fails on the way, is done with. */
  async step(id: string): Promise<void> {
    const { random } = this.#simulation.world;
    const kind = random.pick(KINDS);
    const bucket = bucketOf(random.pick(BRANCHES));
    await this.#tally
      .during(kind, () => this.#take(kind, { id, bucket }))
      .catch((error) => {
        if (!isMishap(error)) throw error;
      });
  }

  async #take(kind: (typeof KINDS)[number], { id, bucket }: { id: string; bucket: string }): Promise<void> {
    const { random } = this.#simulation.world;
    const branch = this.#simulation.branch(bucket);
    const path = random.pick(PATHS);
    switch (kind) {
      case "put":
        return await this.#put(branch, { path, text: `text ${id}` });
      case "copy":
        return await this.#copy(branch, { from: random.pick(PATHS), to: path });
      case "erase":
        return await this.#erase(bucket, path);
      case "fork":
        this.#came("fork", await branch.lifecycle.fork({ parent: bucketOf(random.pick(BRANCHES)) }));
        return;
      case "delete":
        await branch.files.commit({ operations: [{ delete: path }] });
        return;
      case "destroy":
        // The first one is mostly there, so that there is something to fork.
        if (random.chance(0.2)) await branch.lifecycle.destroy({ withFiles: true });
    }
  }

  #came(kind: string, answer: { readonly ok: true } | { readonly ok: false; readonly reason: string }): void {
    this.#tally.add(`outcome ${kind}: ${answer.ok ? "done" : answer.reason}`);
  }

  /** As PutObject: bytes before names. */
  async #put(branch: BranchApi, { path, text }: { path: string; text: string }): Promise<void> {
    const opened = await branch.uploads.open({});
    if (!opened.ok) return;
    const blob = `b/${crypto.randomUUID()}`;
    const bytes = new TextEncoder().encode(text);
    await this.#simulation.blobs.put(blob, bytes);
    const id = idOf(text);
    this.#texts.set(id.digest, text);
    const chunks = [{ blob, offset: 0, length: bytes.length, leaves: "" }];
    const content: Content = { ...id, body: { kind: "chunks", chunks } };
    const answer = await branch.files.put({ path, content, attributes: {}, upload: opened.upload });
    this.#came("put", answer);
    if (answer.ok) this.#named.add(blob);
  }

  async #erase(bucket: string, prefix: string): Promise<void> {
    const { world } = this.#simulation;
    const page = await this.#simulation.branch(bucket).files.versions({ prefix, limit: 10 });
    if (!page.ok) return;
    const versions = page.entries.flatMap((entry) => (entry.kind === "version" ? [entry] : []));
    if (versions.length === 0) return;
    const { path, version } = world.random.pick(versions);
    const [branch = "", repo = ""] = bucket.split(".");
    const done = await eraseThroughForks(
      (address) => this.#simulation.branch(`${address.branch}.${address.repo}`),
      { address: { repo, branch }, versions: [{ path, version }], forks: { mayErase: () => true } },
    );
    this.#came("erase", done);
    if (done.ok)
      this.#erased.push(...done.erased.map((one) => ({ bucket, path: one.path, version: one.version })));
  }

  async #copy(branch: BranchApi, { from, to }: { from: string; to: string }): Promise<void> {
    const read = await branch.files.read({ path: from });
    if (!read.ok) return;
    const { digest, size } = read;
    this.#came("copy", await branch.files.commit({ operations: [{ put: to, digest, size }] }));
  }

  /** What is wrong with what the branches show. */
  async faults(): Promise<string[]> {
    const faults: string[] = [];
    for (const name of BRANCHES) {
      const bucket = bucketOf(name);
      const branch = this.#simulation.branch(bucket);
      const log = await branch.history.list({ limit: 1000 });
      if (!log.ok) {
        if (log.reason !== "no-such-branch") faults.push(`${bucket} answers ${log.reason}`);
        continue;
      }
      for (const { id } of log.commits)
        faults.push(...(await this.#faultsAt(branch, { bucket, commit: id })));
      const versions = await branch.files.versions({ prefix: "", limit: 1000 });
      const shown = versions.ok
        ? versions.entries.flatMap((entry) => (entry.kind === "prefix" ? [] : [entry]))
        : [];
      for (const one of this.#erased) {
        if (
          one.bucket === bucket &&
          shown.some(({ path, version }) => path === one.path && version === one.version)
        ) {
          faults.push(`${bucket} shows ${one.path} of ${one.version}, which was erased`);
        }
      }
    }
    return faults;
  }

  async #faultsAt(
    branch: BranchApi,
    { bucket, commit }: { bucket: string; commit: string },
  ): Promise<string[]> {
    const page = await branch.files.list({ prefix: "", limit: 1000, commit });
    if (!page.ok) return [`${bucket} has no commit ${commit}: ${page.reason}`];
    const faults: string[] = [];
    for (const entry of page.entries) {
      if (entry.kind !== "file") continue;
      const read = await branch.files.read({ path: entry.path, commit });
      const bytes =
        read.ok && read.body.kind === "chunks"
          ? read.body.chunks.map(({ blob }) => this.#simulation.blobs.blobs.get(blob))
          : [];
      const text = bytes.map((each) => (each ? new TextDecoder().decode(each) : "")).join("");
      if (text !== this.#texts.get(entry.digest))
        faults.push(`${bucket} has lost the bytes of ${entry.path} at ${commit}`);
    }
    return faults;
  }

  async destroyAll(): Promise<void> {
    for (const name of BRANCHES) {
      const answer = await this.#simulation.branch(bucketOf(name)).lifecycle.destroy({ withFiles: true });
      if (!answer.ok && answer.reason !== "no-such-branch")
        throw new Error(`a branch is not deleted: ${answer.reason}`);
    }
  }

  /** What is left of branches that are all deleted. */
  remains(): string[] {
    const blobs = [...this.#simulation.blobs.blobs.keys()].filter((name) => this.#named.has(name));
    const rows = this.#simulation.branches.all().flatMap(({ name, storage }) =>
      ["files", "contents", "pending_deletions", "fork_holds", "give_backs", "outbox"].flatMap((table) => {
        const [row] = storage.has(table)
          ? storage.read<{ n: number }>(`SELECT count(*) AS n FROM ${table}`)
          : [];
        return row && row.n > 0 ? [`${name} has ${row.n} rows of ${table} left`] : [];
      }),
    );
    return [...blobs.map((name) => `the blob ${name} is left`), ...rows];
  }
}

function bucketOf(branch: string): string {
  return `${branch}.${REPO}`;
}
