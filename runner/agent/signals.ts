import type { Log } from "../lib/log.ts";
import type { Runner } from "../main.ts";

/** The first SIGTERM or SIGINT (Ctrl-C) drains the runner, the second one kills it. Ends with the runner. */
export function stopOnSignals(runner: Pick<Runner, "done" | "drain" | "kill">, { log }: { log: Log }): void {
  let signals = 0;
  const onSignal = (name: NodeJS.Signals) => {
    signals += 1;
    if (signals === 1) {
      log.info({ signal: name }, "draining: running datums are finished; once more to stop them");
      runner.drain();
    } else runner.kill();
  };
  process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
  const forget = () => process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
  runner.done.then(forget, forget);
}
