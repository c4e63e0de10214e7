import { randomBytes } from "node:crypto";
import { AwsClient } from "aws4fetch";
import { Readiness } from "../../protocol/ready.ts";

/** What a gateway that was just deployed is tried with. */
export interface Tried {
  readonly endpoint: string;
  /** Undefined: nothing can be signed, so that only what needs no key is tried. */
  readonly rootKey: { readonly accessKeyId: string; readonly secretAccessKey: string } | undefined;
}

export interface SmokeDeps {
  readonly fetch: typeof globalThis.fetch;
  /** Waits a moment before the next try; resolves false when there is no time left. */
  readonly again: () => Promise<boolean>;
  say(line: string): void;
}

/** The gateway answers, and not as it should. */
class SmokeError extends Error {
  override readonly name = "SmokeError";
}

/** Larger than what a branch keeps in its own rows, so that R2 is used. */
const TRIED_BYTES = 8192;

/** Asks a gateway whether it is well, then puts, reads and deletes a file in a bucket of its own. Throws a SmokeError if it is not. */
export async function smoke(tried: Tried, deps: SmokeDeps): Promise<void> {
  const send = sender(tried, deps);
  await untilAnswers(tried.endpoint, deps);
  deps.say(`GET ${tried.endpoint}/healthz: ok`);
  await untilReady(send, deps);
  deps.say("GET /readyz: ready");
  if (!tried.rootKey) {
    deps.say(
      "no file was put: the root key is not known here (set SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY)",
    );
    return;
  }
  await tryFile(send);
  deps.say("a file was put, read and deleted by S3");
}

type Send = (method: string, path: string, body?: Uint8Array<ArrayBuffer>) => Promise<Response>;

function sender({ endpoint, rootKey }: Tried, deps: SmokeDeps): Send {
  const signer = rootKey && new AwsClient({ ...rootKey, service: "s3", region: "auto", retries: 0 });
  return async (method, path, body) => {
    const init = { method, ...(body && { body }) };
    const url = `${endpoint}${path}`;
    return await deps.fetch(signer ? await signer.sign(url, init) : new Request(url, init));
  };
}

/** A name that is new takes a while to be known everywhere. */
async function untilAnswers(endpoint: string, { fetch, again }: SmokeDeps): Promise<void> {
  for (;;) {
    const met = await fetch(`${endpoint}/healthz`).then(
      async (answer) =>
        answer.status === 200 && (await answer.text()) === "ok\n" ? undefined : `${answer.status}`,
      (error: unknown) => (error instanceof Error ? error.message : String(error)),
    );
    if (met === undefined) return;
    if (!(await again())) throw new SmokeError(`${endpoint}/healthz does not answer: ${met}`);
  }
}

async function untilReady(send: Send, { again }: SmokeDeps): Promise<void> {
  for (;;) {
    const answer = await send("GET", "/readyz");
    const told = Readiness.safeParse(await answer.json().catch(() => undefined));
    if (told.success && told.data.ready) return;
    const fault = told.success ? wordsOf(told.data) : `it answers ${answer.status}`;
    if (!(await again())) throw new SmokeError(`the gateway is not ready: ${fault}`);
  }
}

function wordsOf({ failed, causes = [] }: Readiness): string {
  const known = causes.map(({ check, cause, fix }) => `${check}: ${cause} ${fix}`);
  return known.length > 0 ? known.join("\n") : failed.join(", ");
}

/** In a bucket with a name that nobody else can have, since it is deleted, whatever is in it. */
async function tryFile(send: Send): Promise<void> {
  const bucket = `/deploy-check-${randomBytes(8).toString("hex")}`;
  const file = `${bucket}/file`;
  const bytes = new Uint8Array(randomBytes(TRIED_BYTES));
  await must(await send("PUT", bucket), `PUT ${bucket}`);
  try {
    await must(await send("PUT", file, bytes), "PUT of a file");
    const read = await must(await send("GET", file), "GET of the file");
    if (!Buffer.from(await read.arrayBuffer()).equals(bytes)) {
      throw new SmokeError("GET of the file returned other bytes than were put");
    }
    await must(await send("DELETE", file), "DELETE of the file");
    const gone = await send("GET", file);
    if (gone.status !== 404) throw new SmokeError(`GET of the deleted file answers ${gone.status}, not 404`);
  } finally {
    await must(await send("DELETE", bucket), `DELETE ${bucket}`);
  }
}

async function must(answer: Response, what: string): Promise<Response> {
  if (answer.ok) return answer;
  throw new SmokeError(`${what} answers ${answer.status}: ${(await answer.text()).slice(0, 1000)}`);
}
