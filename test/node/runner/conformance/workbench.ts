import { chmod, mkdir, mkdtemp, readFile, realpath, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import type { Command, Executor, Run, Sandbox } from "../../../../runner/executors/executor.ts";
import { removeTree } from "../../../../runner/pfs/remove.ts";
import { leftovers, NOTHING } from "../../../support/leftovers.ts";
import type { TestImage } from "../../../support/test-images.ts";
import type { Subject, SubjectTerms } from "./subjects.ts";

export interface WorkbenchOptions extends SubjectTerms {
  readonly image?: TestImage;
}

/** Runs a test's commands: one executor and one sandbox for a file's tests, and a datum for each. */
export class Workbench {
  readonly subject: Subject;
  readonly #options: WorkbenchOptions;
  #dir: string | undefined;
  #executor: Executor | undefined;
  #sandbox: Sandbox | undefined;
  #pfs: string | undefined;
  #made = 0;

  constructor(subject: Subject, options: WorkbenchOptions) {
    this.subject = subject;
    this.#options = options;
  }

  async open(): Promise<void> {
    // A name with a blank, which tools may split at.
    this.#dir = await realpath(await mkdtemp(join(tmpdir(), "sluice executor ")));
    this.#executor = await this.subject.open(this.dir, this.#options);
    this.#sandbox = await this.prepare(this.#options.image);
  }

  /** The node's data folder. */
  get dir(): string {
    return present(this.#dir);
  }

  get executor(): Executor {
    return present(this.#executor);
  }

  /** The present test's datum: its input is the file `in/file`, which holds "given". */
  get pfs(): string {
    return present(this.#pfs);
  }

  get sandbox(): Sandbox {
    return present(this.#sandbox);
  }

  /** Another sandbox of the same executor. The caller closes it. */
  async prepare(image: TestImage = "busybox"): Promise<Sandbox> {
    return this.executor.prepare({
      dir: await this.newFolder("worker"),
      image: await this.subject.image(image),
      pipeline: "conformance",
      pullSecrets: [],
      signal: new AbortController().signal,
    });
  }

  /** A datum: the files that it is given, by name. */
  async datum(files: Readonly<Record<string, string>>): Promise<string> {
    const pfs = await this.newFolder("datum");
    await mkdir(join(pfs, "in"));
    await mkdir(join(pfs, "out"));
    for (const [name, text] of Object.entries(files)) {
      await writeFile(join(pfs, "in", name), text);
      await chmod(join(pfs, "in", name), 0o444);
    }
    return pfs;
  }

  async newFolder(name: string): Promise<string> {
    this.#made += 1;
    const folder = join(this.dir, `${name}-${this.#made}`);
    await mkdir(folder);
    return folder;
  }

  async newDatum(): Promise<void> {
    this.#pfs = await this.datum({ file: "given" });
  }

  command(cmd: readonly string[], more: Partial<Command> = {}): Command {
    const { path } = this.subject;
    const signal = new AbortController().signal;
    return { pfs: this.pfs, cmd, stdin: null, env: { PATH: path }, signal, ...more };
  }

  run(cmd: readonly string[], more: Partial<Command> = {}): Promise<Run> {
    return this.sandbox.run(this.command(cmd, more));
  }

  sh(script: string, more: Partial<Command> = {}): Promise<Run> {
    return this.run(["sh", "-c", script], more);
  }

  /** What the present datum wrote. */
  out(file: string): Promise<string> {
    return readFile(join(this.pfs, "out", file), "utf8");
  }

  /** Lets go of all, and looks whether anything is left of it. */
  async close(): Promise<void> {
    if (this.#dir === undefined) return;
    await this.#sandbox?.close();
    await this.#executor?.close();
    const { engine } = this.subject;
    const left = await leftovers({ folder: this.dir, ...(engine !== undefined && { engine }) });
    await removeTree(this.dir);
    expect({ ...left, files: [] }).toEqual(NOTHING);
    await engine?.close();
  }
}

/** A workbench for the tests of a `describe`. If the subject is absent, it is never opened. */
export function workbench(subject: Subject, options: WorkbenchOptions = {}): Workbench {
  const bench = new Workbench(subject, options);
  if (subject.absent) return bench;
  beforeAll(() => bench.open());
  beforeEach(() => bench.newDatum());
  afterEach(() => removeTree(bench.pfs));
  afterAll(() => bench.close());
  return bench;
}

function present<T>(part: T | undefined): T {
  if (part === undefined) throw new Error("the workbench is not open");
  return part;
}
