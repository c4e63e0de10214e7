import type { Log } from "../lib/log.ts";
import type { Detected } from "./detect.ts";
import { type Executor, NO_ENGINE, NodeCondition } from "./executor.ts";

export interface WaitingOptions {
  /** The way to run commands if an engine answers by now, or what was tried. */
  readonly look: () => Promise<Detected | readonly string[]>;
  readonly log: Log;
}

/**
 * An executor for a node on which no container engine answers yet. Each worker that wants a sandbox looks for one; as long
 * as there is none, that is a node condition, which the worker reports, and it tries again. Once one is found, it stays.
 */
export function waitingExecutor({ look, log }: WaitingOptions): Executor {
  let found: Executor | undefined;
  let looking: Promise<Executor> | undefined;

  const find = async (): Promise<Executor> => {
    const seen = await look();
    if (!("executor" in seen)) throw new NodeCondition(noEngineYet(seen));
    found = seen.executor;
    log.info({ executor: found.name, tool: seen.tool }, "a container engine answers now");
    return found;
  };

  return {
    get name() {
      return found?.name ?? NO_ENGINE;
    },
    async prepare(request) {
      if (found) return found.prepare(request);
      // Several workers look at the same time, and two finds would be two executors of one data folder.
      looking ??= find().finally(() => {
        looking = undefined;
      });
      return (await looking).prepare(request);
    },
    close: async () => found?.close(),
  };
}

/** What a runner says that waits for an engine, and what to do about it. */
export function noEngineYet(tried: readonly string[]): string {
  return `no container engine answers (${tried.join("; ")}): start one, or if the runner is in a container, mount the engine's socket into it: -v /var/run/docker.sock:/var/run/docker.sock`;
}
