import { StringDecoder } from "node:string_decoder";
import type Dockerode from "dockerode";
import { z } from "zod";
import { Stalled, whileItGoesOn } from "../../../lib/concurrency.ts";
import { messageOf } from "../../../lib/fault.ts";
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

/** No record is longer; what is would not be one that matters. */
const MAX_RECORD_CHARACTERS = 1024 * 1024;

const Failure = z.union([
  z.object({ errorDetail: z.object({ message: z.string().min(1) }) }),
  z.object({ error: z.string().min(1) }),
]);

/** Reads what an engine tells of a pull or a push, JSON records a line each, and keeps nothing but its first failure. */
export class ProgressReader {
  readonly #decoder = new StringDecoder("utf8");
  #rest = "";
  #failure: string | undefined;

  add(chunk: Uint8Array): void {
    const lines = (this.#rest + this.#decoder.write(chunk)).split("\n");
    this.#rest = (lines.pop() ?? "").slice(0, MAX_RECORD_CHARACTERS);
    for (const line of lines) this.#read(line);
  }

  /** Why it failed, or undefined. */
  end(): string | undefined {
    this.#read(this.#rest);
    return this.#failure;
  }

  #read(line: string): void {
    // Progress comes by the thousand.
    if (this.#failure !== undefined || !line.includes('"error')) return;
    this.#failure = failureIn(line);
  }
}

function failureIn(line: string): string | undefined {
  try {
    const { data } = Failure.safeParse(JSON.parse(line));
    if (data === undefined) return undefined;
    return "error" in data ? data.error : data.errorDetail.message;
  } catch {
    return undefined;
  }
}
