/** What people ask a long-running command to do by signals. */
export interface StopRequests {
  /** Resolves at the first SIGINT, SIGTERM or SIGHUP. */
  readonly drain: Promise<void>;
  /** Resolves at the second one. */
  readonly kill: Promise<void>;
  /** Leaves signals to the platform again. */
  forget(): void;
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** The signals of keys. They reach every program on a terminal, also those that only wait for another one there. */
const KEYS = ["SIGINT", "SIGQUIT"] as const;

/**
 * Listens from now on. A third signal ends the process at once. `terminal: "lent"`: another program has it, and what is
 * typed there is meant for that.
 */
export function stopRequests({ terminal = "own" }: { terminal?: "own" | "lent" } = {}): StopRequests {
  const drain = Promise.withResolvers<void>();
  const kill = Promise.withResolvers<void>();
  let seen = 0;
  const lent: readonly NodeJS.Signals[] = terminal === "lent" ? KEYS : [];
  const ignored = (): void => {};
  const heard = SIGNALS.filter((signal) => !lent.includes(signal));
  const onSignal = (): void => {
    seen++;
    if (seen === 1) drain.resolve();
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
