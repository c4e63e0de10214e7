/** The process of a Launcher: executes what it is ordered to, over the channel that it was started with. */
import { errorCode } from "../../lib/fault.ts";
import { closeInherited, execute } from "./execute.ts";
import type { Answer, Order } from "./launcher.ts";

// Before the first command.
closeInherited();

const running = new Map<number, AbortController>();

process.on("message", (order: Order) => {
  if (order.do === "kill") running.get(order.id)?.abort();
  else void perform(order);
});

process.on("disconnect", () => {
  for (const abort of running.values()) abort.abort();
  process.exit();
});

const there: Answer = { ready: true };
process.send?.(there);

async function perform({ id, launch, files }: Extract<Order, { do: "execute" }>): Promise<void> {
  const abort = new AbortController();
  running.set(id, abort);
  const answer = await execute(launch, { ...files, signal: abort.signal }).then(
    (ended): Answer => ({ id, ended }),
    (error: unknown): Answer => ({
      id,
      error: { message: String((error as Error).message), code: errorCode(error) },
    }),
  );
  running.delete(id);
  if (process.connected) process.send?.(answer);
}
