/** What people ask a long-running command to do by signals. */
export interface StopRequests {
  /** Resolves at the first SIGINT, SIGTERM or SIGHUP, to that. */
  readonly drain: Promise<NodeJS.Signals>;
  /** Resolves at the second one. */
  readonly kill: Promise<void>;
  /** Leaves signals to the platform again. */
  forget(): void;
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** The signals of keys. They reach every program on a terminal, also those that only wait for another one there. */
const KEYS = ["SIGINT", "SIGQUIT"] as const;

/** What must not stay behind, whatever ends this process but SIGKILL: half a file, a terminal without a cursor. */
const cleanups = new Set<() => void>();

/** Calls `cleanup` when the process ends, unless the function that this returns was called before. */
export function atEnd(cleanup: () => void): () => void {
  cleanups.add(cleanup);
  return () => void cleanups.delete(cleanup);
}

/**
 * From now on a signal that nobody else listens to cleans up and ends the process as that signal does, so that a shell
 * knows that its loop was meant as well.
 */
export function cleanUpAtEnd(): void {
  process.on("exit", cleanUp);
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      // A runner, say, listens as well, and ends by itself.
      if (process.listenerCount(signal) === 1) endBy(signal);
    });
  }
}

/** Ends this process as a signal does that nobody handles. */
export function endBy(signal: NodeJS.Signals): void {
  cleanUp();
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
}

function cleanUp(): void {
  for (const cleanup of cleanups) cleanup();
  cleanups.clear();
}

/**
 * Listens from now on. A third signal ends the process at once. `terminal: "lent"`: another program has it, and what is
 * typed there is meant for that.
 */
export function stopRequests({ terminal = "own" }: { terminal?: "own" | "lent" } = {}): StopRequests {
  const drain = Promise.withResolvers<NodeJS.Signals>();
  const kill = Promise.withResolvers<void>();
  let seen = 0;
  const lent: readonly NodeJS.Signals[] = terminal === "lent" ? KEYS : [];
  const ignored = (): void => {};
  const heard = SIGNALS.filter((signal) => !lent.includes(signal));
  const onSignal = (signal: NodeJS.Signals): void => {
    seen++;
    if (seen === 1) drain.resolve(signal);
    else if (seen === 2) kill.resolve();
    else process.exit(1);
  };
  for (const signal of heard) process.on(signal, onSignal);
  for (const signal of lent) process.on(signal, ignored);
  return {
    drain: drain.promise,
    kill: kill.promise,
    forget() {
      for (const signal of heard) process.off(signal, onSignal);
      for (const signal of lent) process.off(signal, ignored);
    },
  };
}
