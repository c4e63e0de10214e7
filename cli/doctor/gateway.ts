import { Client, GatewayError } from "../gateway/client.ts";
import { type Connection, findConnection } from "../gateway/connection.ts";
import { CliError, UsageError } from "../output/failure.ts";
import { clockFinding } from "./clock.ts";
import type { Finding } from "./finding.ts";

const PATIENCE_MS = 15_000;
const START = "start one with 'sluice dev', or set SLUICE_ENDPOINT to where one is";

/** Whether the gateway that the environment or the data folder names answers, takes the key, and has the same time. */
export async function gatewayFindings(from: Parameters<typeof findConnection>[0]): Promise<Finding[]> {
  let connection: Connection;
  try {
    connection = findConnection(from);
  } catch (error) {
    if (error instanceof UsageError) return [{ check: "gateway", state: "fail", found: error.message }];
    if (!(error instanceof CliError)) throw error;
    // A machine can be looked at before it is told of its gateway.
    return [{ check: "gateway", state: "warn", found: error.message }];
  }
  const sentAt = Date.now();
  const reached = await reach(connection.endpoint);
  if (!reached.ok) {
    const found = `${connection.endpoint}: ${reached.reason}`;
    return [{ check: "gateway", state: "fail", found, fix: START }];
  }
  const { theirs, receivedAt } = reached;
  return [
    { check: "gateway", state: "ok", found: `${connection.endpoint} answers` },
    ...(theirs === undefined ? [] : [clockFinding({ sentAt, receivedAt, theirs })]),
    await keyFinding(connection),
  ];
}

type Reached =
  | { readonly ok: true; readonly receivedAt: number; readonly theirs: number | undefined }
  | { readonly ok: false; readonly reason: string };

async function reach(endpoint: string): Promise<Reached> {
  try {
    const answer = await fetch(`${endpoint}/healthz`, { signal: AbortSignal.timeout(PATIENCE_MS) });
    const receivedAt = Date.now();
    const text = (await answer.text()).trim();
    if (answer.status !== 200 || text !== "ok") {
      return { ok: false, reason: `it answers ${answer.status} and is no gateway that is ready` };
    }
    const date = Date.parse(answer.headers.get("date") ?? "");
    return { ok: true, receivedAt, theirs: Number.isNaN(date) ? undefined : date };
  } catch (error) {
    return { ok: false, reason: wordsOf(error) };
  }
}

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === "TimeoutError") return `it does not answer within ${PATIENCE_MS / 1000} s`;
  return error.cause instanceof Error ? error.cause.message || wordsOf(error.cause) : error.message;
}

/** The README, "Access keys", says which keys are enough for what. */
const KEY_FIX =
  "make one with a key that handles keys, and give it to the runner: sluice key create --level runner --description runners";

/**
 * Whether the key may do what a runner does. Asked with a renewal that names nothing: the gateway looks at the key first,
 * and then refuses the rest.
 */
async function keyFinding(connection: Connection): Promise<Finding> {
  const client = new Client(connection);
  const check = "key";
  try {
    await client.send({
      method: "POST",
      path: "/api/v1/runner/renew",
      json: {},
      patienceMs: PATIENCE_MS,
    });
  } catch (error) {
    if (!(error instanceof GatewayError && error.code === "InvalidRequest")) {
      return { check, state: "fail", found: wordsOf(error), fix: KEY_FIX };
    }
  } finally {
    await client.close();
  }
  return {
    check,
    state: "ok",
    found: `${connection.accessKeyId}, from ${connection.keySource}, is enough for a runner`,
  };
}
