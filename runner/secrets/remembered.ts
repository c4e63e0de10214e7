import { unlessAborted } from "../lib/concurrency.ts";
import type { KeptSecret, SecretStore } from "./source.ts";

/** A secret that was replaced is seen at most this much later. */
const FRESH_MS = 30_000;

export interface RememberOptions {
  /** Ends questions: they outlive the datum that asked first, since others may wait for the same secret. */
  readonly kill: AbortSignal;
  /** A clock, in milliseconds. */
  readonly now: () => number;
}

/** The same secrets, kept in memory for a while so that not every datum asks for them. Failures are not kept. */
export function remembered(store: SecretStore, { kill, now }: RememberOptions): SecretStore {
  const known = new Map<string, { readonly at: number; readonly secret: Promise<KeptSecret> }>();
  const ask = (name: string): Promise<KeptSecret> => {
    const before = known.get(name);
    if (before && now() - before.at < FRESH_MS) return before.secret;
    const secret = store.read(name, kill);
    const entry = { at: now(), secret };
    known.set(name, entry);
    secret.catch(() => known.get(name) === entry && known.delete(name));
    return secret;
  };
  return { read: (name, signal) => unlessAborted(ask(name), signal) };
}
