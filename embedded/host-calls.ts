import { timingSafeEqual } from "node:crypto";
import { statfs } from "node:fs/promises";
import type { HostDisks } from "../protocol/admin.ts";
import type { HostAnswer, HostRequest } from "./workerd/runtime.ts";

interface HostCallsOptions {
  /** What every request must present: others on the machine reach the host as well. */
  readonly token: string;
  /** What answers, by the path. */
  readonly paths: Readonly<Record<string, (request: HostRequest) => Promise<unknown>>>;
}

/** What the Worker asks of the host, which does what the runtime can't. */
export function hostCalls({ token, paths }: HostCallsOptions): (request: HostRequest) => Promise<HostAnswer> {
  const known = new Map(Object.entries(paths));
  return async (request) => {
    if (!isSame(request.headers.get("authorization") ?? "", token)) return { status: 403, body: null };
    const answer = known.get(new URL(request.url).pathname);
    return answer ? { status: 200, body: await answer(request) } : { status: 404, body: null };
  };
}

/** What is free to this user on the file systems of these folders; bytes. */
export async function disksOf(folders: readonly string[]): Promise<HostDisks> {
  const looked = await Promise.all(folders.map((folder) => statfs(folder)));
  const spaces = looked.map(({ bavail, blocks, bsize }) => ({
    freeBytes: bavail * bsize,
    totalBytes: blocks * bsize,
  }));
  return { spaces };
}

function isSame(given: string, token: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(token)];
  return a.length === b.length && timingSafeEqual(a, b);
}
