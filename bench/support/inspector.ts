import { setTimeout as pause } from "node:timers/promises";
import { request, WebSocket } from "undici";
import { z } from "zod";

/** Garbage goes in several steps: what one collection finalises, the next one frees. */
const COLLECTIONS = 3;
/** After the last collection, until the allocator has given pages back. */
const SETTLE_MS = 500;

const Targets = z.array(z.object({ id: z.string(), webSocketDebuggerUrl: z.string() }));
const Answer = z.object({ id: z.int(), error: z.object({ message: z.string() }).optional() });

/**
 * Makes a process with V8 in it collect all its garbage (Chrome DevTools Protocol, `HeapProfiler.collectGarbage`).
 * `port`: of its inspector. `isolate`: part of the name of the one that is meant, if there are several.
 */
export async function collectGarbage({
  port,
  isolate = "",
}: {
  port: number;
  isolate?: string;
}): Promise<void> {
  const answer = await request(`http://127.0.0.1:${port}/json`);
  const targets = Targets.parse(await answer.body.json());
  const target = targets.find(({ id }) => id.includes(isolate));
  if (!target) throw new Error(`the inspector at port ${port} has no '${isolate}'`);
  const socket = new WebSocket(target.webSocketDebuggerUrl);
  try {
    await new Promise((resolve, reject) => {
      socket.onopen = resolve;
      socket.onerror = () => reject(new Error(`the inspector at port ${port} could not be reached`));
    });
    for (let id = 1; id <= COLLECTIONS; id++)
      await call(socket, { id, method: "HeapProfiler.collectGarbage" });
  } finally {
    socket.close();
  }
  await pause(SETTLE_MS);
}

function call(socket: WebSocket, order: { id: number; method: string }): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.onmessage = ({ data }) => {
      const { id, error } = Answer.parse(JSON.parse(String(data)));
      if (id !== order.id) return;
      if (error) reject(new Error(`${order.method}: ${error.message}`));
      else resolve();
    };
    socket.onclose = () => reject(new Error(`${order.method}: the inspector has gone`));
    socket.send(JSON.stringify(order));
  });
}
