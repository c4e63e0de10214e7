import { createHash } from "node:crypto";
import { MAX_PAIRS } from "../../../../protocol/pipeline-check.ts";
import { type Axis, combinations } from "../../../core/cross-product.ts";
import { datumId, datumKey } from "../../../core/datums.ts";
import type { JobContext, PipelineContext } from "../../context.ts";
import type { Element } from "../../inputs/element-store.ts";
import type { Touched } from "../../inputs/touched-store.ts";
import type { Ledger } from "../../ledger/ledger.ts";
import { fillingStep } from "../guards.ts";
import { writtenSince } from "./starts.ts";

/** Touched paths looked at in one transaction, and datums born or killed in it: some 30 ms of work. */
const SLICE = 250;
/** Directories that are fingerprinted at the same time. */
const FINGERPRINTS_AT_ONCE = 8;

/**
 * One slice of comparing touched paths with the elements that are there, and of the births that follow. Elements go one
 * at a time and every death comes before the first birth, so at each moment the alive datums are the cross product of
 * the alive elements: no pair is made twice, and none is made in vain. Returns whether the job's datums are all known.
 */
export async function updateDatums(context: PipelineContext, filling: JobContext): Promise<boolean> {
  const { ledger, peers, memory } = context;
  const { job } = filling;
  const touched = ledger.touched.found(job.n, SLICE);
  const now = await elementsAt(context, { ...filling, touched });
  const filled = fillingStep(ledger, filling, () => {
    const slice = new Slice(ledger, { ...filling, job: ledger.jobs.get(job.n) ?? job, now: peers.now() });
    const compared = slice.compare(touched, now) && touched.length < SLICE;
    // No pair is made of a cross product that is too large: the next slice gives the job up (fill.ts).
    const done = compared && excessOf(ledger, filling) === undefined && slice.bear();
    slice.save(done);
    if (done) ledger.jobs.start(job.n, peers.now());
    return done;
  });
  memory.queued.wake();
  return filled ?? false;
}

/**
 * Why a job can't have its datums: the cross product of its inputs is larger than MAX_PAIRS. Known once all touched
 * paths were compared, before the first pair is made. Returns undefined if the product is within the limit.
 */
export function excessOf({ elements, touched }: Ledger, { definition, job }: JobContext): string | undefined {
  if (definition.inputs.length < 2 || touched.found(job.n, 1).length > 0) return undefined;
  const sizes = definition.inputs.map((_, input) => elements.sizeOf(input));
  const pairs = sizes.reduce((product, size) => product * BigInt(size), 1n);
  if (pairs <= MAX_PAIRS) return undefined;
  const sides = definition.inputs.map(({ name }, input) => `${sizes[input]} of '${name}'`).join(" with ");
  return `its inputs make ${pairs} datums, ${sides}, and a job may have ${MAX_PAIRS}: let a glob match directories instead of the files in them, or less`;
}

/** What is at each touched path now; a directory is fingerprinted once per job, at the job's own position. */
async function elementsAt(
  { peers }: Pick<PipelineContext, "peers">,
  { definition, job, touched }: JobContext & { touched: readonly Touched[] },
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
  readonly #filling: JobContext & { readonly now: number };
  #left = SLICE;
  #alive = 0;
  #skipped = 0;
  #from: readonly string[] | null;

  constructor(ledger: Ledger, filling: JobContext & { readonly now: number }) {
    this.#ledger = ledger;
    this.#filling = filling;
    this.#from = filling.job.fill.step === "settle" ? filling.job.fill.from : null;
  }

  /** Returns false if the slice is used up before all were compared. */
  compare(touched: readonly Touched[], now: readonly (Element | undefined)[]): boolean {
    const { elements, touched: store } = this.#ledger;
    const { n } = this.#filling.job;
    for (const [index, { input, path }] of touched.entries()) {
      if (this.#left <= 0) return false;
      const before = elements.alive(input, path);
      const after = now[index];
      if (isSame(before, after)) {
        store.drop(n, { input, path });
        continue;
      }
      if (before && !this.#kill(input, before)) return false;
      if (after) {
        store.stage(n, { input, element: after });
        this.#resize(input, 1);
      } else store.drop(n, { input, path });
      this.#left--;
    }
    return true;
  }

  /** Returns false if the slice is used up before all were born. */
  bear(): boolean {
    const { touched, elements } = this.#ledger;
    const { n } = this.#filling.job;
    for (let next = touched.nextBirth(n); next; next = touched.nextBirth(n)) {
      const { input, element } = next;
      elements.bear(element, { input, job: n });
      const done = this.#cross(input, element, (pair) => this.#bearDatum(pair));
      if (!done) return false;
      touched.born(n, { input, path: element.path });
      this.#left--;
    }
    return true;
  }

  save(done: boolean): void {
    const { pipeline, jobs } = this.#ledger;
    const { n } = this.#filling.job;
    const total = pipeline.addAlive(this.#alive);
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

  /** Without a cross product the number of elements is that of the datums. */
  #resize(input: number, change: number): void {
    if (this.#filling.definition.inputs.length > 1) this.#ledger.elements.resize(input, change);
  }

  #bearDatum(pair: readonly Element[]): void {
    const { datums, results, attempts } = this.#ledger;
    const { definition, job, now } = this.#filling;
    const key = datumKey(pair.map(({ path }) => path));
    const named = pair.map((element, index) => ({ ...element, input: definition.inputs[index]?.name ?? "" }));
    const id = datumId(named, sha256Hex);
    datums.bear({ id, key, salt: definition.salt }, job.n);
    this.#alive++;
    if (results.has(id, definition.salt)) this.#skipped++;
    else if (job.finishedAt === null) attempts.add(job.n, { id, key });
    // The job was stopped meanwhile: the next one that has the datum runs it.
    else attempts.addKilled(job.n, { id, key }, { now });
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
