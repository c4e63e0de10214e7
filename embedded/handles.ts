import { closeSync, openSync, readdirSync, readFileSync } from "node:fs";
import { devNull } from "node:os";
import type { HostHandles } from "../protocol/admin.ts";
import type { HostLog } from "./workerd/runtime.ts";

/*
 * File handles, which connections, databases and files take. A process that has none left takes no connections and opens nothing
 * until others are closed. Linux alone tells of them.
 */

type Handles = HostHandles["processes"][number];

/** With fewer a gateway serves a handful of clients: each connection takes one, each branch in use three. */
const FEW = 1024;
/** How the runtime, SQLite and Node say in the log that there was none. */
const NONE_LEFT = /\bEMFILE\b|\bENFILE\b|Too many open files|SQLITE_CANTOPEN/i;

/** What a start says of a limit that is low; undefined if it is not. `most`: how many handles this process may have. */
export function fewHandlesWarning(most = ownLimit()): string | undefined {
  if (most === undefined || most >= FEW) return undefined;
  return `this gateway may have ${most} file handles ('ulimit -n'), which connections and open files take: with more than a few clients at a time it has to refuse some. Let it have ${FEW} at least`;
}

/** As many as it takes to start a process with its pipes, and to talk to it. */
const RESERVED = 32;

/**
 * Handles that are kept for the start of another runtime, if one dies: without them nothing would come in its place, and Node's
 * report of that would end this process, too.
 */
export class HandleReserve {
  #held: number[] = [];

  /** Takes those that are missing, and no more than half of what is left. */
  take(): void {
    try {
      const count = countOf("self");
      const left = typeof count === "object" ? Math.floor((count.most - count.open) / 2) : RESERVED;
      const wanted = Math.min(RESERVED, this.#held.length + left);
      while (this.#held.length < wanted) this.#held.push(openSync(devNull, "r"));
    } catch (error) {
      if (!NONE_LEFT.test(String(error))) throw error;
    }
  }

  release(): void {
    for (const handle of this.#held.splice(0)) closeSync(handle);
  }
}

/** So often at most the log says that they have run out. */
const TELL_EVERY_MS = 60_000;
const RAN_OUT =
  "the gateway has no file handles left ('ulimit -n'), which connections and open files take: clients are cut off or refused until some are free. Raise the limit that it is started with, or let fewer clients in at a time";

/** The handles of this process and of the runtime, and when they were last heard to have run out. */
export class HandleWatch {
  readonly #runtimePid: () => number | undefined;
  #ranOutAt: number | undefined;
  #toldAt = Number.NEGATIVE_INFINITY;

  constructor(runtimePid: () => number | undefined) {
    this.#runtimePid = runtimePid;
  }

  /** The same log, in which what tells of handles that have run out is noticed, and said in words. */
  heeding(log: HostLog): HostLog {
    const note = (message: string): string => {
      if (this.heed(message) && performance.now() - this.#toldAt >= TELL_EVERY_MS) {
        this.#toldAt = performance.now();
        log.warn(RAN_OUT);
      }
      return message;
    };
    return {
      debug: (message) => log.debug(note(message)),
      info: (message) => log.info(note(message)),
      warn: (message) => log.warn(note(message)),
      error: (message) => log.error(note(message)),
    };
  }

  /** Whether words tell that a process of the gateway had none left, which is then known. */
  heed(words: string): boolean {
    const isNone = NONE_LEFT.test(words);
    if (isNone) this.#noteNone();
    return isNone;
  }

  #noteNone(): void {
    this.#ranOutAt = performance.now();
  }

  answer(): HostHandles {
    const found = [countOf("self"), countOf(this.#runtimePid())];
    const processes = found.filter((each) => typeof each === "object");
    if (found.includes("none-left") || processes.some(({ open, most }) => open >= most)) this.#noteNone();
    const ranOutMs = this.#ranOutAt === undefined ? null : Math.round(performance.now() - this.#ranOutAt);
    return { processes, ranOutMs };
  }
}

/** Undefined if the system does not tell. To look takes a handle, too. */
function countOf(pid: number | "self" | undefined): Handles | "none-left" | undefined {
  if (pid === undefined) return undefined;
  try {
    const most = limitOf(pid);
    return most === undefined ? undefined : { open: readdirSync(`/proc/${pid}/fd`).length, most };
  } catch (error) {
    return NONE_LEFT.test(String(error)) ? "none-left" : undefined;
  }
}

function ownLimit(): number | undefined {
  try {
    return limitOf("self");
  } catch {
    return undefined;
  }
}

/** How many handles a process may have; undefined if there is no bound. */
function limitOf(pid: number | "self"): number | undefined {
  const limits = readFileSync(`/proc/${pid}/limits`, "utf8");
  const most = /^Max open files +(\d+) /m.exec(limits)?.[1];
  return most === undefined ? undefined : Number(most);
}
