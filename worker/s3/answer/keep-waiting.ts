import { waitUntil } from "cloudflare:workers";
import { XML_DECLARATION } from "./xml.ts";

/** How long an answer may take before its client gets a first byte, in milliseconds. Clients give up after about a minute of silence. */
export const PATIENCE_MS = 10_000;
/** Time between two bytes that only say that the work goes on, in milliseconds. */
const INTERVAL_MS = 10_000;

export interface WaitOptions {
  /** The answer for an error. */
  readonly fail: (error: unknown) => Response;
  readonly patienceMs?: number;
  readonly intervalMs?: number;
}

/**
 * An answer in XML that may take long. If it comes soon, it goes out as it is, and an error rejects. If not, a 200
 * begins at once and white space keeps the client. Then comes the body of the answer or of the error, without the
 * headers that it would have had (S3's CompleteMultipartUpload and CopyObject do the same). The work goes on if the
 * client leaves.
 */
export async function keepWaiting(
  answer: Promise<Response>,
  { fail, patienceMs = PATIENCE_MS, intervalMs = INTERVAL_MS }: WaitOptions,
): Promise<Response> {
  const soon = await within(answer, patienceMs);
  if (soon !== undefined) return soon;
  const { readable, writable } = new IdentityTransformStream();
  waitUntil(send(answer.catch(fail), { writer: writable.getWriter(), intervalMs }).catch(() => {}));
  return new Response(readable, { headers: { "content-type": "application/xml" } });
}

async function send(
  answer: Promise<Response>,
  { writer, intervalMs }: { writer: WritableStreamDefaultWriter<Uint8Array>; intervalMs: number },
): Promise<void> {
  const encoder = new TextEncoder();
  try {
    await writer.write(encoder.encode(XML_DECLARATION));
    let response: Response | undefined;
    while (response === undefined) {
      response = await within(answer, intervalMs);
      if (response === undefined) await writer.write(encoder.encode(" "));
    }
    await writer.write(encoder.encode((await response.text()).slice(XML_DECLARATION.length)));
    await writer.close();
  } finally {
    // The client may be gone: its request is done all the same.
    await answer;
  }
}

/** Returns undefined if the answer does not come within the time. */
async function within(answer: Promise<Response>, ms: number): Promise<Response | undefined> {
  const timer = new AbortController();
  const late = scheduler.wait(ms, { signal: timer.signal }).then(() => undefined);
  late.catch(() => {});
  try {
    return await Promise.race([answer, late]);
  } finally {
    timer.abort();
  }
}
