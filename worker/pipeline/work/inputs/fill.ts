/*
 * For each dirty path, the path and its parent directories are tested against the glob. What matches is an entry of the
 * input. A directory's identity is a digest over what is under it. Entries and datums live by births and deaths, counted in
 * jobs, so a job costs what changed. A new datum whose id has a result is skipped.
 */

import { createHash } from "node:crypto";
import { MAX_PAIRS } from "../../../../protocol/pipeline-check.ts";
import { type Axis, combinations } from "../../../core/cross-product.ts";
import { datumId, datumKey } from "../../../core/datums.ts";
import { yieldToOthers } from "../../../objects/turns.ts";
import type { DatumName } from "../../attempts/attempt-store.ts";
import type { JobWork, PipelineContext } from "../../context.ts";
import { candidates, inputsOf, readersOf } from "../../inputs/candidates.ts";
import { BEFORE_ALL } from "../../inputs/datum-store.ts";
import type { Element, Touched } from "../../inputs/element-store.ts";
import { ALL_COLLECTED, type Fill } from "../../jobs/job-store.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { fillingStep } from "../guards.ts";
import { endEarly } from "../jobs.ts";
import { writtenSince } from "./starts.ts";

/** Paths collected, or rows removed, in one transaction. */
const PAGE = 500;

/** Small jobs filled before other calls get their turn. */
const JOBS_PER_TURN = 10;

/**
 * Works out the datums of every job that waits for them, one job after the other, in slices. One slice does what the
 * job's `fill` says and writes what comes next (pull.ts tells the whole way).
 */
export async function fillJobs(context: PipelineContext): Promise<void> {
  for (let jobs = 0; ; ) {
    const definition = context.ledger.active();
    const job = definition && context.ledger.jobs.nextToFill();
    if (!definition || !job) return;
    const filled = await fillStep({ ...context, definition, job });
    if (!filled || ++jobs % JOBS_PER_TURN === 0) await yieldToOthers();
  }
}

/** One slice. Returns whether it was the job's last. */
async function fillStep(filling: JobWork): Promise<boolean> {
  const { fill } = filling.job;
  if (readWhole(filling)) return false;
  switch (fill.step) {
    case "forget":
      forget(filling, fill);
      return false;
    case "snapshot":
      await collectSnapshot(filling, fill);
      return false;
    case "changes":
      await collectChanges(filling, fill.after);
      return false;
    case "clear":
      collectCleared(filling, fill);
      return false;
    default: {
      const reason = excessOf(filling);
      return reason === undefined ? updateDatums(filling) : giveUp(filling, reason);
    }
  }
}

/**
 * The job reads its inputs whole: what was there before ends, and what is still there is born again. A datum that has a
 * result keeps it, and the output commit is the difference between results, so nothing is run or written in vain.
 */
function forget(filling: JobWork, { datums: after = BEFORE_ALL }: Extract<Fill, { step: "forget" }>): void {
  const { ledger, job } = filling;
  fillingStep(filling, () => {
    const { count, next } =
      after === null ? { count: 0, next: null } : ledger.datums.killSome(job.n, { after, limit: PAGE });
    const done = next === null && ledger.elements.killSome(job.n, PAGE) < PAGE;
    if (done) ledger.elements.clearSizes();
    const fill: Fill = done ? { step: "snapshot", view: 0, after: "" } : { step: "forget", datums: next };
    ledger.jobs.setFill(job.n, { fill, total: ledger.pipeline.addAlive(-count) });
  });
}

/** Every file that belongs to the inputs is new: one page of one view. */
async function collectSnapshot(filling: JobWork, at: Extract<Fill, { step: "snapshot" }>): Promise<void> {
  const { ledger, peers, definition, job } = filling;
  const view = definition.views[at.view];
  const address = view && definition.sources[view.source];
  const position = view && job.positions[view.source];
  if (!view || !address || !position) {
    fillingStep(filling, () => setFill(ALL_COLLECTED));
    return;
  }
  const page = await peers
    .branch(address)
    .feed.filesAt({ ...writtenSince(view.start, position), prefix: "", after: at.after, limit: PAGE });
  const changes = page.files.map((file) => ({ path: file.path, now: file }));
  fillingStep(filling, () => {
    ledger.touched.add(job.n, candidates(changes, inputsOf(definition.inputs, view)));
    setFill(
      page.next === null
        ? { step: "snapshot", view: at.view + 1, after: "" }
        : { step: "snapshot", view: at.view, after: page.next },
    );
  });

  function setFill(fill: Fill): void {
    ledger.jobs.setFill(job.n, { fill, total: job.total });
  }
}

/** A commit that changed more than its feed page held: one more page of its changes. */
async function collectChanges(filling: JobWork, after: string): Promise<void> {
  const { ledger, peers, definition, job } = filling;
  const address = definition.sources[job.source];
  const position = job.positions[job.source];
  if (!address || !position) throw new Error(`job ${job.id} has no source ${job.source}`);
  const { generation, seq } = position;
  const page = await peers.branch(address).feed.changes({ generation, seq, after, limit: PAGE });
  fillingStep(filling, () => {
    ledger.touched.add(job.n, candidates(page.changes, readersOf(definition.inputs, job.source)));
    const fill: Fill = page.next === null ? ALL_COLLECTED : { step: "changes", after: page.next };
    ledger.jobs.setFill(job.n, { fill, total: job.total });
  });
}

/** The branch was deleted: every element of its inputs is gone. */
function collectCleared(filling: JobWork, at: Extract<Fill, { step: "clear" }>): void {
  const { ledger, definition, job } = filling;
  fillingStep(filling, () => {
    const cleared = definition.inputs[at.input];
    const gone =
      cleared?.source === job.source
        ? ledger.elements.aliveAfter({ input: at.input, after: at.after, limit: PAGE })
        : [];
    const paths = gone.map(({ path }) => path);
    ledger.touched.add(
      job.n,
      paths.map((path) => ({ input: at.input, path, file: null, directory: false })),
    );
    const last = paths.at(-1);
    const fill: Fill = !cleared
      ? ALL_COLLECTED
      : last === undefined
        ? { step: "clear", input: at.input + 1, after: null }
        : { step: "clear", input: at.input, after: last };
    ledger.jobs.setFill(job.n, { fill, total: job.total });
  });
}

/**
 * Fails a job whose cross product is too large. What it was about to make is dropped, so the next job can't build upon
 * it: that one reads its inputs whole. One slice. Returns whether it was the last.
 */
function giveUp(filling: JobWork, reason: string): boolean {
  const { ledger, job } = filling;
  const done = fillingStep(filling, (tx) => {
    endEarly(tx, filling, { job, state: "failure", reason });
    if (ledger.touched.clear(job.n, PAGE)) return false;
    ledger.pipeline.set({ nextReadsWhole: 1 });
    ledger.jobs.setFilled(job.n);
    return true;
  });
  return done ?? false;
}

/** A job behind one that was given up reads its inputs whole. Returns whether this is one. */
function readWhole(filling: JobWork): boolean {
  const { ledger } = filling;
  if (ledger.pipeline.row()?.nextReadsWhole !== 1) return false;
  fillingStep(filling, () => {
    ledger.jobs.setFill(filling.job.n, { fill: { step: "forget" }, total: filling.job.total });
    ledger.pipeline.set({ nextReadsWhole: 0 });
  });
  return true;
}

/** Touched paths looked at in one transaction, and datums born or killed in it: some 30 ms of work. */
const SLICE = 250;
/** Directories that are fingerprinted at the same time. */
const FINGERPRINTS_AT_ONCE = 8;

/**
 * One slice of comparing touched paths with the elements that are there, and of the births that follow. Elements go one
 * at a time and every death comes before the first birth, so at each moment the alive datums are the cross product of
 * the alive elements: no pair is made twice, and none is made in vain. Returns whether the job's datums are all known.
 */
async function updateDatums(filling: JobWork): Promise<boolean> {
  const { ledger, peers, memory, job } = filling;
  const touched = ledger.touched.found(job.n, SLICE);
  const now = await elementsAt(filling, touched);
  const filled = fillingStep(filling, () => {
    const slice = new Slice({ ...filling, job: ledger.jobs.get(job.n) ?? job });
    const compared = slice.compare(touched, now) && touched.length < SLICE;
    // No pair is made of a cross product that is too large: the next slice gives the job up (fill.ts).
    const done = compared && excessOf(filling) === undefined && slice.bear();
    slice.save(done);
    if (done) ledger.jobs.start(job.n, peers.now());
    return done;
  });
  memory.queued.wakeOne();
  return filled ?? false;
}

/**
 * Why a job can't have its datums: the cross product of its inputs is larger than MAX_PAIRS. Known once all touched
 * paths were compared, before the first pair is made. Returns undefined if the product is within the limit.
 */
function excessOf({ ledger: { elements, touched }, definition, job }: JobWork): string | undefined {
  if (definition.inputs.length < 2 || touched.found(job.n, 1).length > 0) return undefined;
  const sizes = definition.inputs.map((_, input) => elements.sizeOf(input));
  const pairs = sizes.reduce((product, size) => product * BigInt(size), 1n);
  if (pairs <= MAX_PAIRS) return undefined;
  const sides = definition.inputs.map(({ name }, input) => `${sizes[input]} of '${name}'`).join(" with ");
  return `its inputs make ${pairs} datums, ${sides}, and a job may have ${MAX_PAIRS}: let a glob match directories instead of the files in them, or less`;
}

/** What is at each touched path now; a directory is fingerprinted once per job, at the job's own position. */
async function elementsAt(
  { peers, definition, job }: JobWork,
  touched: readonly Touched[],
): Promise<(Element | undefined)[]> {
  const found: (Element | undefined)[] = [];
  for (let start = 0; start < touched.length; start += FINGERPRINTS_AT_ONCE) {
    const some = touched.slice(start, start + FINGERPRINTS_AT_ONCE);
    found.push(...(await Promise.all(some.map(elementAt))));
  }
  return found;

  async function elementAt({ input, path, digest, size, directory }: Touched): Promise<Element | undefined> {
    if (digest !== null && size !== null) return { path, kind: "file", digest, size };
    const { source, start = null } = definition.inputs[input] ?? {};
    const address = source === undefined ? undefined : definition.sources[source];
    const position = source === undefined ? undefined : job.positions[source];
    if (!directory || !address || !position) return undefined;
    const print = await peers.branch(address).feed.fingerprint({ ...writtenSince(start, position), path });
    return print ? { path, kind: "dir", digest: print.digest, size: print.size } : undefined;
  }
}

/** The state of one transaction of a fill. */
class Slice {
  readonly #ledger: Ledger;
  readonly #filling: JobWork;
  #left = SLICE;
  #alive = 0;
  #skipped = 0;
  readonly #toRun: DatumName[] = [];
  readonly #born: string[] = [];
  #from: readonly string[] | null;

  constructor(filling: JobWork) {
    this.#ledger = filling.ledger;
    this.#filling = filling;
    this.#from = filling.job.fill.step === "settle" ? filling.job.fill.from : null;
  }

  /** Returns false if the slice is used up before all were compared. */
  compare(touched: readonly Touched[], now: readonly (Element | undefined)[]): boolean {
    const count = this.#compare(touched, now);
    this.#ledger.touched.compared(this.#filling.job.n, touched.slice(0, count));
    return count === touched.length;
  }

  /** Returns how many were compared. */
  #compare(touched: readonly Touched[], now: readonly (Element | undefined)[]): number {
    const { elements, touched: store } = this.#ledger;
    const { n } = this.#filling.job;
    for (const [index, { input, path }] of touched.entries()) {
      if (this.#left <= 0) return index;
      const before = elements.alive(input, path);
      const after = now[index];
      if (isSame(before, after)) continue;
      if (before && !this.#kill(input, before)) return index;
      if (after && this.#isCross) {
        if (store.stage(n, { input, element: after })) this.#resize(input, 1);
      } else {
        if (after) this.#bear(input, after);
        // Its only datum is born, also if the slice is used up by that.
        this.#from = null;
      }
      this.#left--;
    }
    return touched.length;
  }

  /** Returns false if the slice is used up before all were born. */
  bear(): boolean {
    const { touched } = this.#ledger;
    const { n } = this.#filling.job;
    for (let next = touched.nextBirth(n); next; next = touched.nextBirth(n)) {
      const { input, element } = next;
      if (!this.#bear(input, element)) return false;
      touched.born(n, { input, path: element.path });
      this.#left--;
    }
    return true;
  }

  save(done: boolean): void {
    const { pipeline, jobs, datums, attempts } = this.#ledger;
    const { n } = this.#filling.job;
    datums.listBirths(n, this.#born);
    const total = pipeline.addAlive(this.#alive);
    attempts.add(n, this.#toRun);
    jobs.setFill(n, { fill: done ? { step: "done" } : { step: "settle", from: this.#from }, total });
    if (this.#skipped > 0) jobs.count(n, { skipped: this.#skipped });
  }

  #kill(input: number, element: Element): boolean {
    const { elements, datums } = this.#ledger;
    const { n } = this.#filling.job;
    const done = this.#cross(input, element, (pair) => {
      if (datums.kill(datumKey(pair.map(({ path }) => path)), n)) this.#alive--;
    });
    if (done) {
      elements.kill({ input, path: element.path, job: n });
      this.#resize(input, -1);
    }
    return done;
  }

  /** An element and its datums. Returns false if the slice is used up before all were born. */
  #bear(input: number, element: Element): boolean {
    this.#ledger.elements.bear(element, { input, job: this.#filling.job.n });
    return this.#cross(input, element, (pair) => this.#bearDatum(pair));
  }

  /** Without a cross product no element makes datums with others: it need not wait until others have died. */
  get #isCross(): boolean {
    return this.#filling.definition.inputs.length > 1;
  }

  /** Without a cross product the number of elements is that of the datums. */
  #resize(input: number, change: number): void {
    if (this.#isCross) this.#ledger.elements.resize(input, change);
  }

  #bearDatum(pair: readonly Element[]): void {
    const { datums, results, attempts } = this.#ledger;
    const { definition, job, peers } = this.#filling;
    const key = datumKey(pair.map(({ path }) => path));
    const named = pair.map((element, index) => ({ ...element, input: definition.inputs[index]?.name ?? "" }));
    const id = datumId(named, sha256Hex);
    datums.bear({ id, key, salt: definition.salt }, job.n);
    this.#born.push(key);
    this.#alive++;
    if (results.has(id, definition.salt)) this.#skipped++;
    else if (job.finishedAt === null) this.#toRun.push({ id, key });
    // The job was stopped meanwhile: the next one that has the datum runs it.
    else attempts.addKilled(job.n, { id, key }, { now: peers.now() });
  }

  /** Every datum of one element with the alive ones of the other inputs, from where the last slice stopped. */
  #cross(input: number, element: Element, each: (pair: readonly Element[]) => void): boolean {
    const { inputs } = this.#filling.definition;
    const axes = inputs.map((_, index) =>
      index === input ? only(element) : this.#ledger.elements.axis(index),
    );
    for (const pair of combinations(axes, this.#from)) {
      each(pair);
      this.#left--;
      if (this.#left <= 0) {
        this.#from = pair.map(({ path }) => path);
        return false;
      }
    }
    this.#from = null;
    return true;
  }
}

function only(element: Element): Axis<Element> {
  return {
    at: (path) => (path === element.path ? element : undefined),
    after: (path) => (path === null ? element : undefined),
  };
}

function isSame(a: Element | undefined, b: Element | undefined): boolean {
  return a?.kind === b?.kind && a?.digest === b?.digest && a?.size === b?.size;
}

function sha256Hex(text: string): string {
  return createHash("sha256").update(new TextEncoder().encode(text)).digest("hex");
}
