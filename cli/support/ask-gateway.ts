import { z } from "zod";
import { KeptLines, Loops } from "../../protocol/admin.ts";
import { Pipeline, PipelineList } from "../../protocol/pipelines.ts";
import { forEachLimited, unlessAborted } from "../../runner/lib/concurrency.ts";
import { messageOf } from "../../runner/lib/fault.ts";
import { askReady } from "../doctor/gateway.ts";
import { Client } from "../gateway/client.ts";
import type { Connection } from "../gateway/connection/connection.ts";
import { type Live, liveText } from "../output/live-line.ts";
import type { Redactor } from "../output/redact.ts";

const MAX_PIPELINES = 200;
export const MAX_JOBS = 100;
const ASKED_AT_ONCE = 4;
/** A gateway that is in trouble may answer slowly, or not at all; milliseconds for one answer. */
const PATIENCE_MS = 20_000;
/** For the pipelines together: each may be stuck. */
const PIPELINES_MS = 60_000;
const NOT_ASKED = "not asked: the pipelines took too long";

/** What could not be collected, and why. */
export interface Missing {
  readonly part: string;
  readonly why: string;
}

/** Where what is missing is noted, and whoever takes the secrets out of the rest. */
export interface Asked {
  readonly missing: Missing[];
  readonly redactor: Redactor;
}

/** What the gateway told of itself. */
export interface Told {
  readonly parts: Map<string, unknown>;
  /** Whether it answered anything at all. */
  readonly answers: boolean;
}

export interface AskOptions {
  /** Aborted when the pipelines have been asked for long enough; counted from the first of them. */
  readonly deadline?: () => AbortSignal;
  readonly live?: Live;
}

/** Does `act`. Notes why the part is missing if that fails; then it answers false. */
export async function attempt(
  part: string,
  { missing }: Pick<Asked, "missing">,
  act: () => unknown,
): Promise<boolean> {
  const why = await failureOf(act);
  if (why !== undefined) missing.push({ part, why });
  return why === undefined;
}

async function failureOf(act: () => unknown): Promise<string | undefined> {
  try {
    await act();
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/** What the gateway tells of itself. Whether it is ready comes first: that it answers when it can answer nothing else. */
export async function askGateway(
  connection: Connection,
  { missing, redactor }: Asked,
  { deadline = () => AbortSignal.timeout(PIPELINES_MS), live = liveText({ json: true }) }: AskOptions = {},
): Promise<Told> {
  const parts = new Map<string, unknown>();
  const client = new Client(connection);
  const get = (path: string, query: Record<string, string> = {}) =>
    unlessAborted(
      client.call(z.unknown(), { method: "GET", path, query, patienceMs: PATIENCE_MS }),
      AbortSignal.timeout(PATIENCE_MS),
    );
  try {
    const unready = await failureOf(async () => {
      parts.set("ready.json", await (await askReady(connection, PATIENCE_MS)).json());
    });
    const untold = await failureOf(async () => parts.set("key.json", await get("/whoami")));
    if (unready !== undefined && untold !== undefined) {
      missing.push({ part: "what the gateway tells", why: untold });
      return { parts, answers: false };
    }
    if (unready !== undefined) missing.push({ part: "ready.json", why: unready });
    if (untold !== undefined) missing.push({ part: "key.json", why: untold });
    let unknown: string | undefined = "the pipelines are not known";
    await attempt("pipelines.json", { missing }, async () => {
      const found = await pipelines(client, { redactor, signal: deadline(), live });
      parts.set("pipelines.json", found.told);
      unknown =
        found.failed > 0 ? `${found.failed} of ${found.told.total} pipelines did not tell theirs` : undefined;
    });
    const all: Readonly<Record<string, { readonly ask: () => Promise<unknown>; readonly quotes?: true }>> = {
      "now.json": { ask: () => get("/now"), quotes: true },
      "jobs.json": { ask: () => get("/jobs", { limit: String(MAX_JOBS) }), quotes: true },
      "nodes.json": { ask: () => get("/nodes") },
      "usage.json": { ask: () => get("/usage") },
      "log.txt": { ask: async () => KeptLines.parse(await get("/admin/log")).lines, quotes: true },
    };
    for (const [part, { ask, quotes }] of Object.entries(all)) {
      if (quotes && unknown !== undefined) {
        missing.push({ part, why: `it may quote variables of pipelines, and ${unknown}` });
      } else await attempt(part, { missing }, async () => parts.set(part, await ask()));
    }
    return { parts, answers: true };
  } finally {
    await client.close();
  }
}

/** How a pipeline stands. */
interface Entry {
  readonly name: string;
  readonly error?: string;
  loops?: unknown;
}

/**
 * What is enough to see how they stand. Commands and their variables stay out: whoever wrote them may have put secrets there. The
 * variables of all are asked for first, so that they can be taken out of the rest; of those that `failed` they are not known.
 */
async function pipelines(
  client: Client,
  { redactor, signal, live }: { redactor: Redactor; signal: AbortSignal; live: Live },
): Promise<{ told: { total: number; pipelines: readonly object[] }; failed: number }> {
  const ask = <Schema extends z.ZodType>(schema: Schema, path: string) => {
    if (signal.aborted) throw new Error(NOT_ASKED);
    return unlessAborted(client.call(schema, { method: "GET", path, patienceMs: PATIENCE_MS }), signal);
  };
  const list = (await ask(PipelineList, "/pipelines")).pipelines;
  const total = list.length;
  const told: Entry[] = [];
  const standing: Entry[] = [];
  let failed = 0;
  let asked = 0;
  const each = async ([index, { name, inputs, output }]: [number, PipelineList["pipelines"][number]]) => {
    try {
      const found = await ask(Pipeline, pathOf(name));
      const { state, version, reason, limited, createdAt, spec, hidden = [] } = found;
      const { env = {}, image = null } = spec.transform;
      redactor.addOfPipeline(env);
      // A key that may not read all of the inputs is told none.
      if (hidden.includes("transform.env")) failed += 1;
      if (index >= MAX_PIPELINES) return;
      const variables = Object.keys(env);
      const entry = { name, state, version, reason, limited, createdAt, inputs, output, image, variables };
      told[index] = entry;
      standing.push(entry);
    } catch (error) {
      failed += 1;
      if (index < MAX_PIPELINES) told[index] = { name, error: messageOf(error) };
    } finally {
      asked += 1;
      live.show([`asked ${asked} of ${total} pipelines how they stand`]);
    }
  };
  try {
    await forEachLimited(list.entries(), { limit: ASKED_AT_ONCE, work: each });
    let looked = 0;
    await forEachLimited(standing, {
      limit: ASKED_AT_ONCE,
      work: async (entry) => {
        try {
          entry.loops = await ask(Loops, `${pathOf(entry.name)}/loops`);
        } catch (error) {
          entry.loops = messageOf(error);
        }
        looked += 1;
        live.show([`asked ${looked} of ${standing.length} pipelines for their loops`]);
      },
    });
  } finally {
    live.clear();
  }
  return { told: { total, pipelines: told }, failed };
}

function pathOf(name: string): string {
  return `/pipelines/${encodeURIComponent(name)}`;
}
