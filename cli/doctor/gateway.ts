import { AwsClient } from "aws4fetch";
import { jsonOf } from "../../protocol/json.ts";
import { Readiness } from "../../protocol/ready.ts";
import { Client, GatewayError, isAway } from "../gateway/client.ts";
import { type Connection, type FoundConnection, findConnection } from "../gateway/connection/connection.ts";
import { CliError, UsageError } from "../output/failure.ts";
import { fullWords } from "./loops.ts";
import type { Finding } from "./machine.ts";

const PATIENCE_MS = 15_000;
const START = "start one with 'sluice dev', or set SLUICE_ENDPOINT to where one is";

/** Whether the gateway that the environment or the data folder names answers, takes the key, and has the same time. */
export async function gatewayFindings(...from: Parameters<typeof findConnection>): Promise<Finding[]> {
  let connection: FoundConnection;
  try {
    connection = findConnection(...from);
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
    ...connection.passedOver.map((found): Finding => ({ check: "gateway", state: "warn", found })),
    ...(theirs === undefined ? [] : [clockFinding({ sentAt, receivedAt, theirs })]),
    ...(await readyFindings(connection)),
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

/**
 * Whether the gateway has what it needs to serve: a finding for each thing that it lacks. Why, it tells only keys that are
 * for all repos. No finding if something else than a gateway answers: that is told already.
 */
export async function readyFindings(connection: Connection): Promise<Finding[]> {
  const check = "ready";
  try {
    const answer = await askReady(connection, PATIENCE_MS);
    const told = Readiness.safeParse(jsonOf(await answer.text()));
    return told.success ? toldFindings(check, told.data) : [];
  } catch (error) {
    return [{ check, state: "fail", found: wordsOf(error) }];
  }
}

function toldFindings(check: string, { ready, failed, causes = [], almostFull = [] }: Readiness): Finding[] {
  const full = almostFull.map(
    ({ kind, name, fix, ...space }): Finding => ({
      check: "space",
      state: "warn",
      found: fullWords(kind === "catalogue" ? "the catalogue" : `the ${kind} ${name}`, space),
      fix,
    }),
  );
  if (failed.length === 0)
    return [{ check, state: "ok", found: "the gateway has all that it needs" }, ...full];
  const lacking = failed.map((name): Finding => {
    const known = causes.find((cause) => cause.check === name);
    if (known) return { check, state: "fail", found: `${name}: ${known.cause}`, fix: known.fix };
    const found = ready ? `the gateway takes no new files: ${name}` : `the gateway can't serve: ${name}`;
    return { check, state: "fail", found, fix: READY_FIX };
  });
  return [...lacking, ...full];
}

/** What a gateway says of its readiness. One that can't serve answers 503 with the causes: that is an answer, too. */
export async function askReady(
  { endpoint, accessKeyId, secretAccessKey }: Connection,
  patienceMs: number,
): Promise<Response> {
  const signer = new AwsClient({ accessKeyId, secretAccessKey, service: "s3", region: "auto" });
  const request = await signer.sign(`${endpoint}/readyz`);
  return await fetch(request, { signal: AbortSignal.timeout(patienceMs) });
}

const READY_FIX = "ask with a key that is for all repos to hear why, or look at the gateway's variables";

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === "TimeoutError") return `it does not answer within ${PATIENCE_MS / 1000} s`;
  return error.cause instanceof Error ? error.cause.message || wordsOf(error.cause) : error.message;
}

/** docs/keys.md says which keys are enough for what. */
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
      // A gateway that can't serve says itself what it lacks: another key would not mend that.
      return { check, state: "fail", found: wordsOf(error), ...(!isAway(error) && { fix: KEY_FIX }) };
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

/** The gateway's clock as an answer told it, and when the question and the answer passed here; milliseconds since 1970. */
interface ClockReading {
  readonly sentAt: number;
  readonly receivedAt: number;
  readonly theirs: number;
}

/** Requests whose time is further from the gateway's are refused; the limit of signature version 4. */
const REFUSED_MS = 15 * 60_000;
/** A clock that is kept right by the network is nearer than this. */
const NOTICEABLE_MS = 60_000;
/** The Date header tells whole seconds. */
const TOLD_MS = 1000;

const FIX = "set this machine's clock, such as with timedatectl set-ntp true; or the gateway's";

/** Leases do not mind a wrong clock; signatures do. */
export function clockFinding({ sentAt, receivedAt, theirs }: ClockReading): Finding {
  // Any time between these two may have been the one when the gateway looked at its clock.
  const behind = theirs - receivedAt;
  const ahead = sentAt - (theirs + TOLD_MS);
  const apart = Math.max(behind, ahead, 0);
  if (apart === 0) return { check: "clock", state: "ok", found: "as the gateway's" };
  const seconds = Math.ceil(apart / 1000);
  const found = `${seconds} s ${behind > 0 ? "behind" : "ahead of"} the gateway's`;
  if (apart >= REFUSED_MS) {
    return { check: "clock", state: "fail", found: `${found}: it refuses all requests`, fix: FIX };
  }
  return apart >= NOTICEABLE_MS
    ? { check: "clock", state: "warn", found, fix: FIX }
    : { check: "clock", state: "ok", found };
}
