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

/** Listens from now on. A third signal ends the process at once. */
export function stopRequests(): StopRequests {
  const drain = Promise.withResolvers<void>();
  const kill = Promise.withResolvers<void>();
  let seen = 0;
  const onSignal = (): void => {
    seen++;
    if (seen === 1) drain.resolve();
    else if (seen === 2) kill.resolve();
    else process.exit(1);
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return {
    drain: drain.promise,
    kill: kill.promise,
    forget() {
      for (const signal of SIGNALS) process.off(signal, onSignal);
    },
  };
}
