import type Dockerode from "dockerode";
import { Stalled, whileItGoesOn } from "../../../lib/concurrency.ts";
import { messageOf } from "../../../lib/fault.ts";
import { ProgressReader } from "./progress-reader.ts";
import type { Credentials } from "./pull-secrets.ts";

export interface PullOptions {
  /** The full name. */
  readonly image: string;
  /** Absent: as anybody. */
  readonly login: Credentials["login"] | undefined;
  /** How long an engine may say nothing. */
  readonly silenceMs: number;
  readonly signal: AbortSignal;
}

/** `reason` is what the registry or the engine said. */
export type Pulled = { readonly ok: true } | { readonly ok: false; readonly reason: string };

/**
 * Pulls an image, once. Docker tells a failure by its status, Podman by a record in a stream that began well, and
 * either may do both. Throws only what `signal` is aborted with.
 */
export async function pull(
  docker: Dockerode,
  { image, login, silenceMs, signal }: PullOptions,
): Promise<Pulled> {
  try {
    return await whileItGoesOn(
      { stop: signal, stallMs: silenceMs },
      async ({ signal: abortSignal, alive }) => {
        const stream = await docker.createImage(login, { fromImage: image, abortSignal });
        const reader = new ProgressReader();
        for await (const chunk of stream as AsyncIterable<Buffer>) {
          alive();
          reader.add(chunk);
        }
        const reason = reader.end();
        return reason === undefined ? { ok: true } : { ok: false, reason };
      },
    );
  } catch (error) {
    signal.throwIfAborted();
    const stalled = error instanceof Stalled;
    const reason = stalled ? silent(silenceMs) : engineMessage(error);
    return { ok: false, reason };
  }
}

/** What is said of a registry or an engine that says nothing. */
export function silent(forMs: number): string {
  return `nothing was heard of it for ${forMs / 1000} s`;
}

/** The engine's own words, without what the client library puts around them. */
export function engineMessage(error: unknown): string {
  return messageOf(error)
    .replace(/^\(HTTP code \d+\) .*? - /s, "")
    .trim();
}
