import { HostHandles } from "../protocol/admin.ts";
import type { ReadyCause } from "../protocol/ready.ts";
import { NoHandlesError } from "./blobs/port.ts";
import { inTime } from "./in-time.ts";

/** What failed so soon after a process of the gateway had none left may have failed for it; milliseconds. */
const RECENT_MS = 10_000;
/** With so few left, a request may find none: it needs some for its connection, the files of a database, and a blob. */
const SPARE = 8;

const FIX =
  "Raise the limit that it is started with: 'ulimit -n', LimitNOFILE= of a systemd unit, --ulimit nofile= of a container. Or let fewer clients in at a time.";

/**
 * The file handles of an embedded gateway, which connections, databases and files take. When there are none left, the platform says
 * that something went wrong inside, or that it is overloaded, as it does of a full disk: the host knows which of these it was.
 */
export class Handles {
  readonly #askHost: () => Promise<unknown>;

  constructor(askHost: () => Promise<unknown>) {
    this.#askHost = askHost;
  }

  /** What something failed for: a NoHandlesError, if the gateway has no handles left or just had none, else the error. */
  async explain(error: unknown): Promise<unknown> {
    if (!isOfPlatform(error)) return error;
    const told = await this.#ask();
    // To ask takes a handle, too.
    return told === undefined || isShort(told) ? new NoHandlesError({ cause: error }) : error;
  }

  /** What `/readyz` says of it; undefined if there are enough. */
  async shortage(): Promise<ReadyCause | undefined> {
    const told = await this.#ask();
    if (told === undefined || !isShort(told)) return undefined;
    const counts = told.processes.map(({ open, most }) => `${open} of ${most}`).join(" and ");
    const cause = `The gateway has, or just had, no file handles left for more connections and files (its processes have ${counts}).`;
    return { check: "handles", cause, fix: FIX };
  }

  async #ask(): Promise<HostHandles | undefined> {
    try {
      return HostHandles.parse(await inTime(this.#askHost()));
    } catch (error) {
      console.warn("the host can't tell how many file handles are left", error);
      return undefined;
    }
  }
}

function isShort({ processes, ranOutMs }: HostHandles): boolean {
  if (ranOutMs !== null && ranOutMs < RECENT_MS) return true;
  return processes.some(({ open, most }) => most - open < SPARE);
}

/** Whether an error is one of the platform's, which says no more than that. */
function isOfPlatform(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return "overloaded" in error || "retryable" in error || OF_PLATFORM.test(error.message);
}

// A blob that an object could not write is told by its words: an error that comes from an object has lost its class.
const OF_PLATFORM =
  /^internal error|^blob \S+ could not be written|^Network connection lost|^the disk service could not|\bSQLITE_(CANTOPEN|IOERR)\b/;
