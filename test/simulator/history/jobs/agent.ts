import { type ContentId, contentName, INLINE_LIMIT_BYTES } from "../../../../protocol/content.ts";
import {
  type Assignment,
  GRANT_HEADER,
  HEARTBEAT_MS,
  LEASE_MS,
  type Lease,
  type LeasedDatum,
  type Outcome,
  type Output,
  type Task,
} from "../../../../protocol/runner.ts";
import { mood, outputsOf, type Reading } from "../../../worker/pipeline/model/command.ts";
import type { GatewayRequest } from "../../platform/gateway.ts";
import type { Random } from "../../platform/random.ts";
import type { Simulation } from "../../platform/simulation.ts";
import { type Actor, runAs, type World } from "../../platform/world.ts";
import { isMishap } from "../mishaps.ts";
import type { Tally } from "../tally.ts";
import type { Outside } from "./outside.ts";
import type { Texts } from "./texts.ts";
import type { PipelineWatch } from "./watch.ts";

/** Why a job can't run at all, and what a store says of itself. */
export const NO_SECRET = "there is no secret 'nobody'";
export const REMARK = "the store keeps no conditions";
/** How long a command runs at most; milliseconds. */
const COMMAND_MS = 1_200;
/** How often a call is made again that failed on its way. */
const TRIES = 6;
/** A worker that has nothing to do asks again after so long at most; milliseconds. */
const IDLE_MS = 3_000;
/** How long before and after the end of a lease somebody is late who is so by a hair, at most; milliseconds. */
const EARLY_MS = 50;
const LATE_MS = 2_500;
/** Longest time that a datum may be queued while a worker waits for one; milliseconds. */
const MAX_QUEUED_MS = 2_000;
/** The last that a command says that fails: mostly a word; now and then more than its file in the errors branch has room for. */
const LAST_WORDS = [
  ...["no\n", "no\n", "no\n", "no\nno more\n", ""],
  ...[`no ${"and again".repeat(500)}\n`, `no\nno ${"\u0000ü".repeat(900)}\n`],
];
/** What the ids of datums begin with that no worker outlives. */
const POISON = "0f";
const REASONS = ["no", "no", "no", `no ${"\u0001".repeat(1_200)}`];

export interface AgentOptions {
  readonly node: string;
  /** How it runs commands. */
  readonly executor: "process" | "docker";
  /** What is seen of a pipeline. */
  readonly watch: (pipeline: string) => PipelineWatch | undefined;
  readonly simulation: Simulation;
  readonly texts: Texts;
  readonly outside: Outside;
  readonly random: Random;
  readonly tally: Tally;
  /** It came to something that no runner should: the history is wrong. */
  readonly failed: (error: unknown) => void;
}

/** The agent of one node, as the process that it is now. */
export class Agent implements Actor {
  readonly world: World;
  isAlive = true;
  /** Until then it does nothing, as a machine that sleeps; by the time that nobody sets. */
  frozenUntil = 0;
  readonly #options: AgentOptions;
  readonly #workers = new Map<string, Set<Worker>>();
  /** By digest, what it has read. */
  readonly #cache = new Map<string, string>();
  #isLeaving = false;

  constructor(options: AgentOptions) {
    this.#options = options;
    this.world = options.simulation.world;
  }

  async flushed(): Promise<void> {}

  /** Goes on until it is dead, or has left. */
  start(): void {
    runAs(this, () => void this.#live().catch(this.#options.failed));
  }

  /** What it has in memory is gone, and what is under way breaks off. */
  die(): void {
    this.isAlive = false;
  }

  /** It finishes what runs, says good-bye, and tells that it has done so. */
  leaving(done: () => void): void {
    runAs(
      this,
      () =>
        void this.#leave()
          .catch(() => {})
          .finally(done),
    );
  }

  async #leave(): Promise<void> {
    this.#isLeaving = true;
    const all = [...this.#workers.values()].flatMap((some) => [...some]);
    for (const worker of all) worker.stops = true;
    await Promise.all(all.map(({ done }) => done.promise));
    await this.#ask("DELETE", `/runner/heartbeat?node=${this.#options.node}`);
  }

  async #live(): Promise<void> {
    const { node, executor } = this.#options;
    while (!this.#isLeaving) {
      const work = [...this.#workers].map(([pipeline, there]) => {
        const running = [...there].filter(({ isBusy }) => isBusy).length;
        return { pipeline, workers: there.size, running };
      });
      // One of the nodes has no room for more.
      const bounds = node === "n1" ? { bounds: { running: 1, workers: 2 } } : {};
      const body = { node, executor, capacity: 2, work, ...bounds };
      const answer = await this.#once("POST", "/runner/heartbeat", { body });
      if (answer && !this.#isLeaving) this.#assign(answer as Assignment);
      // Half as often as a real one, for speed: as long as none is lost, it lives all the same.
      await this.#pause(2 * HEARTBEAT_MS);
    }
  }

  #assign({ workers }: Assignment): void {
    const wanted = new Map(workers.map(({ pipeline, count }) => [pipeline, count]));
    for (const pipeline of new Set([...wanted.keys(), ...this.#workers.keys()])) {
      const there = this.#workers.get(pipeline) ?? new Set();
      this.#workers.set(pipeline, there);
      const count = wanted.get(pipeline) ?? 0;
      const working = [...there].filter(({ stops }) => !stops);
      for (const worker of working.slice(count)) worker.stops = true;
      for (let n = working.length; n < count; n++) {
        const worker = new Worker(pipeline, `${this.#options.node}/${pipeline}/${crypto.randomUUID()}`);
        there.add(worker);
        void this.#work(worker)
          .catch(this.#options.failed)
          .finally(() => {
            there.delete(worker);
            worker.done.resolve();
          });
      }
    }
  }

  async #work(worker: Worker): Promise<void> {
    const { random, node } = this.#options;
    const { pipeline, name } = worker;
    while (!worker.stops) {
      const wait = random.chance(0.4) ? { wait: random.pick(["none", "none", "look"]) } : {};
      const max = 1 + random.below(4);
      const asked = { pipeline, node, worker: name, max, ...wait };
      const begun = this.world.now;
      const lease = (await this.#once("POST", "/runner/lease", { body: asked })) as Lease | undefined;
      if (lease) this.#mustBeSoon(lease, { pipeline, begun });
      if (!lease?.slot || lease.tasks.length + lease.datums.length === 0) {
        // Now and then it can't work, says so, and asks for nothing for a while.
        const trouble = { pipeline, worker: name, leases: [], trouble: "it can't\npull its image" };
        const isInTrouble = lease?.slot && random.chance(0.1);
        if (isInTrouble) await this.#once("POST", "/runner/renew", { body: trouble });
        await this.#pause(random.next() * (isInTrouble ? 3 : 1) * IDLE_MS);
      } else {
        worker.isBusy = true;
        await new Batch(this, worker, lease, this.#options).run();
        worker.isBusy = false;
      }
    }
    await this.#ask("POST", "/runner/renew", { body: { pipeline, worker: name, leases: [], leaving: true } });
  }

  /** Who waits for a datum gets one when it is queued; no node gets what it can't run. */
  #mustBeSoon({ datums, transform }: Lease, { pipeline, begun }: { pipeline: string; begun: number }): void {
    if (datums.length === 0) return;
    const { watch, failed, node, executor } = this.#options;
    const queuedMs = watch(pipeline)?.queuedMs(begun) ?? 0;
    if (queuedMs > MAX_QUEUED_MS) failed(`a worker waited beside datums that were queued for ${queuedMs} ms`);
    if (transform.container === "required" && executor === "process")
      failed(`${node} runs no containers, and was given what demands one`);
  }

  /** Sleeps, and on as long as the machine is frozen. */
  async #pause(ms: number): Promise<void> {
    await scheduler.wait(ms);
    while (this.frozenUntil > this.world.now) await scheduler.wait(this.frozenUntil - this.world.now);
  }

  pause(ms: number): Promise<void> {
    return this.#pause(ms);
  }

  /** The text of a content, which a branch has. Throws Refused if it has it no more. */
  async read(
    branch: { repo: string; branch: string },
    id: ContentId,
    grant: string | undefined,
  ): Promise<string> {
    const known = this.#cache.get(id.digest);
    if (known !== undefined) return known;
    const path = `/repos/${branch.repo}/branches/${branch.branch}/contents/${contentName(id)}`;
    const bytes = await this.#bytes("GET", path, { grant });
    const text = new TextDecoder().decode(bytes);
    this.#cache.set(id.digest, text);
    return text;
  }

  /** Asks until there is an answer; undefined if there is none. Throws Refused. */
  async #ask(method: GatewayRequest["method"], path: string, more: Asked = {}): Promise<unknown> {
    const bytes = await this.#bytes(method, path, more);
    return bytes.length === 0 ? undefined : JSON.parse(new TextDecoder().decode(bytes));
  }

  ask(method: GatewayRequest["method"], path: string, more: Asked = {}): Promise<unknown> {
    return this.#ask(method, path, more);
  }

  async #bytes(method: GatewayRequest["method"], path: string, { body, grant }: Asked): Promise<Uint8Array> {
    const headers = grant === undefined ? {} : { [GRANT_HEADER]: grant };
    for (let tries = 1; ; tries++) {
      try {
        const answer = await this.#options.simulation.gateway.send({
          ...{ method, path, headers, level: "runner" },
          ...(body !== undefined && { body }),
        });
        if (answer.status < 300) return answer.bytes;
        const text = new TextDecoder().decode(answer.bytes);
        if (answer.status < 500 || tries === TRIES) throw new Refused(answer.status, text);
      } catch (error) {
        if (!isMishap(error) || tries === TRIES) throw error;
      }
      await this.#pause(100 * tries);
    }
  }

  /** Asks once; undefined if that came to nothing. */
  async #once(method: GatewayRequest["method"], path: string, { body }: Asked): Promise<unknown> {
    try {
      const answer = await this.#options.simulation.gateway.send({
        method,
        path,
        level: "runner",
        ...(body && { body }),
      });
      if (answer.status < 300) return JSON.parse(new TextDecoder().decode(answer.bytes));
    } catch (error) {
      if (!isMishap(error)) throw error;
    }
    return undefined;
  }
}

interface Asked {
  readonly body?: object | Uint8Array | undefined;
  readonly grant?: string | undefined;
}

/** What the gateway refused for good. */
class Refused extends Error {
  readonly status: number;

  constructor(status: number, text: string) {
    super(`${status} ${text}`);
    this.status = status;
  }
}

/** One worker of a pipeline on a node. */
class Worker {
  readonly pipeline: string;
  readonly name: string;
  readonly done = Promise.withResolvers<void>();
  stops = false;
  isBusy = false;

  constructor(pipeline: string, name: string) {
    this.pipeline = pipeline;
    this.name = name;
  }
}

/** What one lease call brought, from the inputs to the outcomes. */
class Batch {
  readonly #agent: Agent;
  readonly #worker: Worker;
  readonly #lease: Lease;
  readonly #options: AgentOptions;
  readonly #grants: Map<string, string>;
  /** When each lease ends at the latest, by the time that nobody sets, as long as the gateway's clock is not set. */
  readonly #until = new Map<string, number>();
  readonly #lost = new Set<string>();
  /** How often the clock had been set when it began. */
  readonly #timesSet: number;

  constructor(agent: Agent, worker: Worker, lease: Lease, options: AgentOptions) {
    this.#agent = agent;
    this.#worker = worker;
    this.#lease = lease;
    this.#options = options;
    this.#timesSet = agent.world.timesSet;
    this.#grants = new Map(Object.entries(lease.grants ?? {}));
    for (const { lease: id } of [...lease.tasks, ...lease.datums])
      this.#until.set(id, agent.world.now + LEASE_MS);
  }

  async run(): Promise<void> {
    const { random, tally } = this.#options;
    const isTogether = random.chance(0.3);
    // Whoever works on some datums is lost each time.
    if (this.#lease.datums.some(({ datum }) => datum.startsWith(POISON))) return;
    const outcomes: Outcome[] = [];
    for (const item of [...this.#lease.tasks, ...this.#lease.datums]) {
      // One that is told that it lost a lease gives up the work; one that was not told may find out later.
      if (this.#lost.has(item.lease)) continue;
      const kind = "kind" in item ? item.kind : "datum";
      const outcome = await tally.during(`jobs: run ${kind}`, () => this.#outcome(item));
      if (!outcome) continue;
      outcomes.push(outcome);
      if (!isTogether) await this.#report(outcomes.splice(0));
    }
    await this.#report(outcomes);
  }

  async #outcome(item: Task | LeasedDatum): Promise<Outcome | undefined> {
    const { random } = this.#options;
    try {
      await this.#runFor(random.next() * COMMAND_MS);
      if (this.#lost.has(item.lease)) return undefined;
      if (random.chance(0.03)) return { lease: item.lease, state: "returned" };
      if (!("kind" in item)) return await this.#datum(item);
      return item.kind === "merge" ? await this.#merge(item) : await this.#push(item);
    } catch (error) {
      if (!(error instanceof Refused) && !isMishap(error)) throw error;
      if (random.chance(0.5)) return undefined;
      if ("kind" in item) this.#options.outside.failedTasks.add(item.job);
      const reason = "what it needs can't be had";
      return {
        lease: item.lease,
        state: "failed",
        blame: "node",
        exitCode: null,
        reason,
        log: "",
        millis: 1,
      };
    }
  }

  /** Lets the command run, and keeps the leases meanwhile; one that is too slow forgets that. */
  async #runFor(ms: number): Promise<void> {
    const { random } = this.#options;
    if (random.chance(0.02)) {
      await this.#agent.pause(LEASE_MS + random.next() * LEASE_MS);
      return;
    }
    if (random.chance(0.15)) {
      await this.#untilLate();
      return;
    }
    await this.#agent.pause(ms);
    const isOld = [...this.#until.values()].some(
      (until) => until - this.#agent.world.now < (2 * LEASE_MS) / 3,
    );
    if (isOld || random.chance(0.1)) await this.#renew();
  }

  /** Is late by a hair, or almost: asks for more time, or goes on, about when its first lease ends. */
  async #untilLate(): Promise<void> {
    const { random } = this.#options;
    const ends = [...this.#until].flatMap(([lease, until]) => (this.#lost.has(lease) ? [] : [until]));
    const end = Math.min(...ends);
    if (!Number.isFinite(end)) return;
    const leftMs = end - this.#agent.world.now;
    // Mostly by little: somebody else who asks sees that the lease has run out.
    const lateMs = random.next() ** 3 * LATE_MS - EARLY_MS;
    await this.#agent.pause(Math.max(0, leftMs + lateMs));
    if (random.chance(0.5)) await this.#renew();
  }

  async #renew(): Promise<void> {
    const { pipeline, name } = this.#worker;
    const leases = [...this.#until.keys()].filter((lease) => !this.#lost.has(lease));
    const trouble = this.#options.random.pick([undefined, undefined, null, "it can't\npull its image"]);
    const asked = { pipeline, worker: name, leases, ...(trouble !== undefined && { trouble }) };
    const gone = leases.filter((lease) => this.#isLost(lease));
    // Without an answer nobody knows until when they are kept.
    for (const lease of leases) this.#until.set(lease, Number.POSITIVE_INFINITY);
    const answer = (await this.#agent.ask("POST", "/runner/renew", { body: asked })) as {
      lost: string[];
      grants?: Record<string, string>;
    };
    for (const lease of leases) this.#until.set(lease, this.#agent.world.now + LEASE_MS);
    for (const lease of answer.lost) this.#lost.add(lease);
    this.#mustBeLost(gone, { lost: answer.lost, what: "renewed" });
    for (const [job, grant] of Object.entries(answer.grants ?? {})) this.#grants.set(job, grant);
  }

  async #datum({ lease, job, datum, inputs }: LeasedDatum): Promise<Outcome> {
    const { random, texts } = this.#options;
    const grant = this.#grants.get(job);
    const reading: Reading = await Promise.all(inputs.map((input) => this.#reading(input, grant)));
    if (random.chance(0.4)) await this.#print({ lease, job, datum });
    const how = mood(reading);
    if (how === "bad" || (how === "flaky" && random.chance(0.5))) return this.#failure({ lease, job });
    const files = this.#isLost(lease)
      ? { "too-late": lease }
      : outputsOf(reading, this.#lease.transform.cmd[0] ?? "");
    const contents = Object.entries(files).map(([path, text]) => ({ path, text, ...texts.id(text) }));
    const isSmall = (size: number) => size <= INLINE_LIMIT_BYTES;
    const up = contents.filter(
      ({ path, size }) => !path.endsWith("/") && (!isSmall(size) || random.chance(0.2)),
    );
    const upload = up.length === 0 ? undefined : await this.#upload({ lease, grant, contents: up });
    const outputs = contents.map((content): Output => {
      const { path, digest, size, text } = content;
      const isThere = path.endsWith("/") || up.includes(content);
      return { path, digest, size, ...(!isThere && { bytes: Buffer.from(text).toString("base64") }) };
    });
    const { executor } = this.#options;
    const image = executor === "process" ? null : `sha256:${random.below(4)}`;
    const ran = { executor, image };
    return {
      lease,
      state: "success",
      exitCode: 0,
      outputs,
      millis: random.below(2 ** random.below(12)),
      ran,
      ...(upload !== undefined && { upload }),
    };
  }

  /** What a runner says of a datum that failed: mostly that, now and then what no datum can be, or that none of its job can run. */
  #failure({ lease, job }: { lease: string; job: string }): Outcome {
    const { random, texts, outside } = this.#options;
    const failed = { lease, state: "failed", exitCode: 3, reason: "no", log: "no\n", millis: 1 } as const;
    const ran = { executor: "process", image: null };
    switch (random.below(20)) {
      case 0: {
        outside.endedJobs.add(job);
        return { ...failed, blame: "node", exitCode: null, reason: NO_SECRET, endsJob: true };
      }
      case 1: {
        const outputs = [{ path: "a//b", ...texts.id("") }];
        return { lease, state: "success", exitCode: 0, outputs, millis: 1, ran };
      }
      case 2: {
        const outputs = [{ path: "folder/", ...texts.id("a folder has no bytes") }];
        return { lease, state: "success", exitCode: 0, outputs, millis: 1, ran };
      }
      case 3:
        return { lease, state: "pushed", millis: 1 };
      default: {
        const [reason, log] = [random.pick(REASONS), random.pick(LAST_WORDS)];
        return { ...failed, reason, log, blame: random.chance(0.2) ? "node" : "datum" };
      }
    }
  }

  /** Ships what the command printed, in one entry or several, and now and then one of them twice. */
  async #print({ lease, job, datum }: { lease: string; job: string; datum: string }): Promise<void> {
    const { random, outside } = this.#options;
    const { pipeline, name } = this.#worker;
    // Short, since little is kept of what is printed.
    const [mark = ""] = lease.split(".");
    const lines = Array.from({ length: 1 + random.below(4) }, (_, n) => `${mark} ${n}`);
    const cut = random.below(lines.length + 1);
    const parts = [lines.slice(0, cut), lines.slice(cut)];
    const printed = outside.prints({ lease: mark, job, datum });
    for (const [seq, part] of parts.entries()) {
      const dropped = random.chance(0.1) ? 3 : 0;
      if (part.length + dropped === 0) continue;
      const entry = { lease, seq, dropped, lines: part.map((line) => [random.below(50), line]) };
      const entries = random.chance(0.1) ? [entry, entry] : [entry];
      printed.asked.push(...part);
      const answer = (await this.#agent.ask("POST", "/runner/logs", {
        body: { pipeline, worker: name, entries },
      })) as { lost: string[] };
      if (answer.lost.length === 0) printed.kept.push(...part);
    }
  }

  /** Brings a store what it lacks, unless somebody else changed it meanwhile, as a store does that keeps conditions. */
  async #push({
    lease,
    job,
    egress,
    entries,
  }: Extract<Task, { kind: "egress" }>): Promise<Outcome | undefined> {
    const { random, outside } = this.#options;
    const grant = this.#grants.get(job);
    const store = outside.store(egress.URL);
    const seen = entries.map(({ path }) => store.get(path)?.version);
    // As a runner does: whoever holds the lease later writes after this look.
    await this.#renew();
    if (this.#lost.has(lease)) return undefined;
    const texts: (string | null)[] = [];
    for (const { content } of entries)
      texts.push(content && (await this.#agent.read(this.#lease.output, content, grant)));
    await this.#runFor(random.next() * COMMAND_MS);
    if (random.chance(0.08)) return this.#failedTask({ lease, job });
    for (const [index, { path }] of entries.entries()) {
      if (store.get(path)?.version !== seen[index]) return this.#failedTask({ lease, job });
      outside.put(store, { path, text: texts[index] ?? null });
    }
    return { lease, state: "pushed", millis: 1, ...(random.chance(0.1) && { remark: REMARK }) };
  }

  #failedTask({ lease, job }: { lease: string; job: string }): Outcome {
    this.#options.outside.failedTasks.add(job);
    const reason = "the store does not answer";
    return { lease, state: "failed", blame: "node", exitCode: null, reason, log: "", millis: 1 };
  }

  /** Whether a lease is lost for sure. What is done for it then is wrong, so that it would be seen. */
  #isLost(lease: string): boolean {
    // A renewal whose answer was lost may have come some milliseconds after the one that was answered.
    const { now, timesSet } = this.#agent.world;
    return (this.#until.get(lease) ?? 0) + 1_000 <= now && timesSet === this.#timesSet;
  }

  async #reading(
    { name, repo, branch, commit, path, kind, content, from }: LeasedDatum["inputs"][number],
    grant: string | undefined,
  ): Promise<Reading[number]> {
    const read = (id: ContentId) => this.#agent.read({ repo, branch }, id, grant);
    if (kind === "file" && content)
      return { input: name, element: { path, kind, entries: [[path, await read(content)]] } };
    const prefix = path === "" ? "" : `${path}/`;
    const query = new URLSearchParams({ prefix, limit: "1000", ...(from !== null && { since: from }) });
    const listed = (await this.#agent.ask(
      "GET",
      `/repos/${repo}/branches/${branch}/commits/${commit}/files?${query}`,
      { grant },
    )) as { files: { path: string; digest: string; size: number }[] };
    const entries: [string, string][] = [];
    for (const file of listed.files)
      entries.push([file.path, file.path.endsWith("/") ? "" : await read(file)]);
    return { input: name, element: { path, kind, entries } };
  }

  /** Bytes before names: what goes up by itself, under the lease. */
  async #upload({
    lease,
    grant,
    contents,
  }: {
    lease: string;
    grant: string | undefined;
    contents: readonly (ContentId & { readonly text: string })[];
  }): Promise<string> {
    const { output } = this.#lease;
    const opened = (await this.#agent.ask("POST", "/uploads", { body: { ...output, lease }, grant })) as {
      upload: string;
    };
    const { upload } = opened;
    const ids = contents.map(({ digest, size }) => ({ digest, size }));
    const path = `/uploads/${upload}`;
    const { missing } = (await this.#agent.ask("POST", `${path}/reserve`, {
      body: { contents: ids },
      grant,
    })) as {
      missing: ContentId[];
    };
    for (const { digest, size, text } of contents) {
      if (!missing.some((each) => each.digest === digest)) continue;
      const body = new TextEncoder().encode(text);
      await this.#agent.ask("PUT", `${path}/contents?digest=${digest}&size=${size}`, { body, grant });
    }
    return upload;
  }

  async #merge({ lease, job, parts }: Extract<Task, { kind: "merge" }>): Promise<Outcome> {
    const { texts, random, outside } = this.#options;
    const grant = this.#grants.get(job);
    const read: string[] = [];
    if (random.chance(0.05)) return this.#failedTask({ lease, job });
    if (random.chance(0.05)) {
      outside.failedTasks.add(job);
      const bytes = Buffer.from("short").toString("base64");
      const wrong = { lease, state: "merged", content: texts.id("short"), bytes, millis: 1 } as const;
      return random.chance(0.5) ? wrong : { lease, state: "pushed", millis: 1 };
    }
    for (const part of parts) read.push(await this.#agent.read(this.#lease.output, part, grant));
    const text = this.#isLost(lease) ? `too late ${lease}` : read.join("");
    const content = texts.id(text);
    if (content.size <= INLINE_LIMIT_BYTES) {
      const bytes = Buffer.from(text).toString("base64");
      return { lease, state: "merged", content, bytes, millis: 1 };
    }
    const upload = await this.#upload({ lease, grant, contents: [{ ...content, text }] });
    return { lease, state: "merged", content, upload, millis: 1 };
  }

  async #finish(body: { readonly outcomes: readonly Outcome[] }): Promise<void> {
    const gone = body.outcomes.map(({ lease }) => lease).filter((lease) => this.#isLost(lease));
    const { lost } = (await this.#agent.ask("POST", "/runner/finish", { body })) as { lost: string[] };
    this.#mustBeLost(gone, { lost, what: "recorded" });
  }

  /** Leases that ran out are told to be lost, whatever is asked for them. */
  #mustBeLost(gone: readonly string[], { lost, what }: { lost: readonly string[]; what: string }): void {
    for (const lease of gone)
      if (!lost.includes(lease)) this.#options.failed(`the lease ${lease} had run out, and was ${what}`);
  }

  async #report(outcomes: readonly Outcome[]): Promise<void> {
    if (outcomes.length === 0) return;
    const { random, tally } = this.#options;
    const { pipeline, name } = this.#worker;
    const body = { pipeline, worker: name, outcomes };
    try {
      for (let times = random.chance(0.05) ? 2 : 1; times > 0; times--)
        await tally.during("jobs: report", () => this.#finish(body));
    } catch (error) {
      if (!(error instanceof Refused) && !isMishap(error)) throw error;
    }
  }
}
