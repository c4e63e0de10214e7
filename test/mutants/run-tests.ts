import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import type { TestRun } from "./mutant.ts";

/**
 * What a run of tests came to. Only a test that ran and failed proves something: code that does not load, names what is not
 * there or has bad SQL would fail any test at all.
 */
export type Outcome =
  | { readonly kind: "passed" }
  | { readonly kind: "failed"; readonly test: string }
  | { readonly kind: "did not run" | "took too long"; readonly why: string };

/** What the process that runs the tests is asked. */
export interface RunRequest {
  readonly file: string;
  readonly title?: string;
  /** Files that are not as they were when the process read them. */
  readonly changed: readonly string[];
}

interface RunOptions extends Pick<RunRequest, "changed"> {
  readonly limitMs: number;
}

/**
 * Runs tests of a tree, one file after the other, in a process that stays: to begin it takes as long as most files do
 * (vitest-process.ts). If tests take too long it is ended, and the next ones begin another one.
 */
export class TestRunner {
  readonly #root: string;
  #child: { readonly project: string; readonly process: ChildProcess } | undefined;

  constructor(root: string) {
    this.#root = root;
  }

  async run({ project, file, title }: TestRun, { changed, limitMs }: RunOptions): Promise<Outcome> {
    const child = this.#childFor(project);
    const request: RunRequest = { file, changed, ...(title !== undefined && { title }) };
    const { promise: late, resolve } = Promise.withResolvers<Outcome>();
    const why = `longer than ${Math.round(limitMs / 1000)} s`;
    const timer = setTimeout(() => resolve({ kind: "took too long", why }), limitMs);
    try {
      const outcome = await Promise.race([ask(child, request), late]);
      if (outcome.kind !== "passed" && outcome.kind !== "failed") this.close();
      return outcome;
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    const pid = this.#child?.process.pid;
    this.#child = undefined;
    if (pid === undefined) return;
    try {
      // A group of its own: what the tests started ends with it.
      process.kill(-pid, "SIGKILL");
    } catch {
      // All of it has ended.
    }
  }

  #childFor(project: string): ChildProcess {
    if (this.#child?.project === project) return this.#child.process;
    this.close();
    const child = spawn(
      process.execPath,
      [join(import.meta.dirname, "vitest-process.ts"), this.#root, project],
      {
        cwd: this.#root,
        detached: true,
        env: { ...process.env, SLUICE_SUITE: "full", NO_COLOR: "1" },
        stdio: ["ignore", "ignore", "ignore", "ipc"],
      },
    );
    this.#child = { project, process: child };
    return child;
  }
}

function ask(child: ChildProcess, request: RunRequest): Promise<Outcome> {
  return new Promise((resolve) => {
    const ended = (code: number | null) => resolve({ kind: "did not run", why: `vitest ended with ${code}` });
    child.once("exit", ended);
    child.once("message", (outcome) => {
      child.off("exit", ended);
      resolve(outcome as Outcome);
    });
    child.send(request);
  });
}
