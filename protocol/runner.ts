import { z } from "zod";
import { ContentId, InlineContent } from "./content.ts";
import { list } from "./errors.ts";
import { Name } from "./names.ts";
import { Egress, Transform } from "./spec.ts";

/**
 * The version of this wire, which each request of a runner and of the CLI and each answer of the gateway says in
 * WIRE_HEADER. Sides one release apart work together: a reader ignores fields that it does not know and needs none that a later
 * version brought.
 */
export const WIRE_VERSION = 3;
/** The first version that is served. Those before it were of no release. */
const FIRST_WIRE = 3;
export const WIRE_HEADER = "x-sluice-wire";

/** Why a request that says this of its version is refused; undefined if it is served, as is one that says nothing. */
export function wireFault(said: string | null): string | undefined {
  if (said === null || Number(said) >= FIRST_WIRE) return undefined;
  return `The request is of version '${said}' of the wire, and this gateway serves version ${FIRST_WIRE} and later: update the runner, or the command line, that sent it.`;
}

/** The header in which a runner presents the grant of a lease. */
export const GRANT_HEADER = "x-sluice-grant";

/** How long a datum lease lasts without renewal. Runners renew at a third of it. */
export const LEASE_MS = 30_000;
/** How often a node says that it lives; a node that has been silent for NODE_TTL_MS counts as dead. */
export const HEARTBEAT_MS = 2_000;
export const NODE_TTL_MS = 10_000;
/**
 * The same of a quiet node: one that runs nothing, has told all that it knows, and hears by its socket when it is to beat. So it
 * need not ask. More often than ERASED_SILENCE_MS, so that its cache can be used at once.
 */
export const QUIET_HEARTBEAT_MS = 40_000;
export const QUIET_TTL_MS = 75_000;
/** Longest time a lease call waits for a datum before it answers empty. */
export const LEASE_WAIT_MS = 20_000;
/** Most datums one lease call hands out, most results one finish call takes. */
export const MAX_BATCH = 64;
/** Most files one datum may write while a commit takes no more. */
export const MAX_OUTPUTS_PER_DATUM = 10_000;
/** Bytes of stdout and stderr that are kept of a failed datum: the end of it. */
export const LOG_TAIL_BYTES = 4096;

/** Longest text in which a worker says why it can't work. */
const MAX_TROUBLE_CHARACTERS = 2000;
/** Most pipelines of whose work one heartbeat tells. */
export const MAX_NODE_WORK = 100;
/** Longest text in which a heartbeat says why workers can't run commands, and most such texts in one. */
export const MAX_NODE_TROUBLE_CHARACTERS = 500;
export const MAX_NODE_TROUBLES = 10;
/** The workers of one pipeline on one node. */
export const NodeWork = z.object({
  pipeline: z.string(),
  workers: z.int().min(0),
  /** Datums whose commands run now. */
  running: z.int().min(0),
  /** Why workers of it can't run commands just now, in the words of the registry or the engine. Absent: they can. */
  trouble: z.string().max(MAX_NODE_TROUBLE_CHARACTERS).optional(),
});
export type NodeWork = z.infer<typeof NodeWork>;

/** What a node has room for. */
export const NodeBounds = z.object({
  /** Commands that run there at once, whatever pipelines they are of. */
  running: z.int().min(1),
  /** Workers there, those included that wait for work. */
  workers: z.int().min(1),
});
export type NodeBounds = z.infer<typeof NodeBounds>;

/** What a node says of itself for people alone. Each is absent if the node does not know it. */
export const NodeAbout = z.object({
  /** The release of Sluice that runs there. */
  version: z.string().max(100).optional(),
  /** The file system of its data folder. */
  disk: z.object({ totalBytes: z.int().min(0), freeBytes: z.int().min(0) }).optional(),
  /** Contents that it keeps for later datums, as last counted, and how much they may be. */
  cache: z.object({ usedBytes: z.int().min(0), maxBytes: z.int().min(0) }).optional(),
});
export type NodeAbout = z.infer<typeof NodeAbout>;

/**
 * What each of several gets of a room that may be too small for all: nobody gets more than it wants, and what it lacks,
 * somebody who has at most one more lacks, too. The gateway spreads workers so, and a node holds itself to it.
 */
export function fairShares(wants: readonly number[], room: number): number[] {
  const shares = wants.map(() => 0);
  const order = wants.map((_, index) => index).sort((a, b) => (wants[a] ?? 0) - (wants[b] ?? 0));
  let left = room;
  for (const [turn, index] of order.entries()) {
    const share = Math.min(wants[index] ?? 0, Math.floor(left / (order.length - turn)));
    shares[index] = share;
    left -= share;
  }
  return shares;
}

/** Most erased contents that one answer to a heartbeat names. */
export const MAX_ERASED = 1000;
/** How long the gateway can say what was erased: a node that was away for longer empties its cache. Milliseconds. */
export const ERASED_KEPT_MS = 30 * 24 * 60 * 60 * 1000;
/** A node that has not been told for so long what was erased uses nothing of its cache; milliseconds. */
export const ERASED_SILENCE_MS = 60_000;

/**
 * A place in the gateway's list of erased contents: the number of an entry, and what tells it from an entry of that number in
 * a list that was lost or set back.
 */
export interface ErasedPlace {
  readonly number: number;
  readonly token: string;
}

export function erasedPlaceText({ number, token }: ErasedPlace): string {
  return `${number}.${token}`;
}

/** Returns undefined if it is none. */
export function parseErasedPlace(text: string): ErasedPlace | undefined {
  const [, number, token = ""] = /^(\d{1,15})\.([0-9a-f]{16})$/.exec(text) ?? [];
  return number === undefined ? undefined : { number: Number(number), token };
}

/** What was erased since the place that a heartbeat has named. */
export const ErasedSince = z.object({
  /** The place that this leads to: the next heartbeat is to name it. */
  upTo: z.string(),
  /** Names of contents (content.ts), in the order in which they were erased. */
  contents: z.array(z.string()).max(MAX_ERASED),
  /** The place is not known: any content may have been erased since. */
  everything: z.literal(true).optional(),
  /** There is more to ask for at once. */
  more: z.literal(true).optional(),
});
export type ErasedSince = z.infer<typeof ErasedSince>;

/** `POST /api/v1/runner/heartbeat` */
export const Heartbeat = z.object({
  node: Name,
  executor: z.string(),
  /** Cores. */
  capacity: z.int().min(1),
  /** What runs there. Absent: nothing. */
  work: z.array(NodeWork).max(MAX_NODE_WORK).optional(),
  /** Absent: it has room for any number. */
  bounds: NodeBounds.optional(),
  /** The place up to which the node has taken out of its cache what was erased; null: it has none. Absent: it has no cache. */
  erasedTo: z.string().max(100).nullable().optional(),
  about: NodeAbout.optional(),
  /** Its next heartbeat comes after QUIET_HEARTBEAT_MS, unless it has something to tell or is woken by its socket. */
  quiet: z.literal(true).optional(),
});
export type Heartbeat = z.infer<typeof Heartbeat>;
/** What this node should run: so many workers of each pipeline. A pipeline that is not named has none here. A node that is being drained gets none at all. */
export const Assignment = z.object({
  workers: z.array(
    z.object({
      pipeline: z.string(),
      count: z.int().min(1),
      /** It has no job under way, and the node is woken when it has: until then its workers need not ask. Absent: they are to ask. */
      idle: z.literal(true).optional(),
    }),
  ),
  /** Absent: the node named no place. */
  erased: ErasedSince.optional(),
  /** The gateway takes sockets of nodes. */
  sockets: z.literal(true).optional(),
});
export type Assignment = z.infer<typeof Assignment>;

/**
 * `GET /api/v1/runner/socket?node=`: a WebSocket over which a node is woken. What it says is no news: a
 * message that is lost, doubled or made up costs time or a heartbeat. A reader passes over what it does not know.
 */
export const WakeUp = z.object({
  /** Something may have changed: the next heartbeat is to come at some time within so long, by chance, so that a fleet does not come at once. */
  beat: z.object({ withinMs: z.int().min(0).max(60_000) }).optional(),
  /** Pipelines that have something to do: their workers are to ask. */
  work: z.array(z.string()).optional(),
});
export type WakeUp = z.infer<typeof WakeUp>;
/** What a node says over its socket to see whether that still reaches the gateway, and what it hears then. */
export const SOCKET_PING = "ping";
export const SOCKET_PONG = "pong";
export const SOCKET_PING_MS = 25_000;
/** A node whose socket broke comes back at some time within so long, by chance: a deployment breaks the sockets of a whole fleet. */
export const SOCKET_RETURN_MS = 10_000;

/** `POST /api/v1/runner/lease`: asks for datums for one worker; if none is queued, waits up to LEASE_WAIT_MS for one. `worker` is unique per slot, e.g. `node-1/edges/0/<random>`. */
export const LeaseRequest = z.object({
  pipeline: Name,
  node: Name,
  worker: z.string().min(1).max(200),
  max: z.int().min(1).max(MAX_BATCH),
  /** `none`: answers at once. `look` peeks: it waits until something is queued, says so by `queued`, and leases nothing. */
  wait: z.enum(["none", "look"]).optional(),
});
/** What a datum reads of one input. */
export const LeasedInput = z.object({
  name: z.string(),
  repo: z.string(),
  branch: z.string(),
  commit: z.string(),
  /** The match, as a path from the root of the repo: "" is the root itself, a directory has no trailing slash. */
  path: z.string(),
  kind: z.enum(["file", "dir"]),
  /** The content of a file. A directory is listed at `commit`, by prefix. */
  content: ContentId.nullable(),
  /** Files are shown as named pipes, and are fetched only when the command opens them. */
  lazy: z.boolean(),
  /** The commit after which a directory's files must have been written to belong to it; null: all belong. */
  from: z.string().nullable(),
});
export const LeasedDatum = z.object({
  lease: z.string(),
  job: z.string(),
  datum: z.string(),
  inputs: z.array(LeasedInput),
});
export type LeasedDatum = z.infer<typeof LeasedDatum>;
/** Most contents that one merge puts together, and most entries that one egress task pushes. */
export const MAX_MERGE_PARTS = 1000;
export const MAX_EGRESS_ENTRIES = 500;

/** What a job has to do beside running its command. A runner does it itself; a lease of its own fences it. */
export const Task = z.discriminatedUnion("kind", [
  /** Contents of the output branch, put together in this order: what several datums wrote to one path. */
  z.object({
    kind: z.literal("merge"),
    lease: z.string(),
    job: z.string(),
    parts: z.array(ContentId).min(2).max(MAX_MERGE_PARTS),
  }),
  /** Files of the output branch, to be put in the external store or, if the content is null, to be removed there. */
  z.object({
    kind: z.literal("egress"),
    lease: z.string(),
    job: z.string(),
    egress: Egress,
    entries: z
      .array(z.object({ path: z.string(), content: ContentId.nullable() }))
      .min(1)
      .max(MAX_EGRESS_ENTRIES),
  }),
]);
export type Task = z.infer<typeof Task>;

/** The grants of leases, by job. A key of level `runner` reads and uploads with them alone (GRANT_HEADER). Absent: the key needs none. */
const Grants = z.record(z.string(), z.string());

export const Lease = z.object({
  /** False if this pipeline has all the workers it should have, so that this one gets nothing. */
  slot: z.boolean(),
  transform: Transform,
  /** How long one run of the command may take, as in the specification (protocol/duration.ts). Absent: as long as it likes. */
  datumTimeout: z.string().optional(),
  output: z.object({ repo: z.string(), branch: z.string() }),
  /** Whether the pipeline belongs to a key that is limited to repos: of secrets it gets only those that name it. */
  limited: z.boolean(),
  datums: z.array(LeasedDatum),
  /** Done before the datums. */
  tasks: z.array(Task),
  grants: Grants.optional(),
  /** What a peek saw: something could be leased. */
  queued: z.boolean().optional(),
});
export type Lease = z.infer<typeof Lease>;

/** `POST /api/v1/runner/renew`: keeps leases and the worker's slot; names the leases that are lost. */
export const RenewRequest = z.object({
  pipeline: Name,
  worker: z.string(),
  leases: z.array(z.string()).max(MAX_BATCH),
  /** The worker ends and holds no lease any more: its slot is free at once. */
  leaving: z.literal(true).optional(),
  /** Why this worker can't run commands just now, for the reason of the job (its image can't be pulled); null: it can again. Absent: as it was. */
  trouble: z.string().max(MAX_TROUBLE_CHARACTERS).nullable().optional(),
});
export type RenewRequest = z.infer<typeof RenewRequest>;
export const Renewed = z.object({
  lost: z.array(z.string()),
  /** Fresh ones, for the jobs of the leases that are kept. */
  grants: Grants.optional(),
});

/** A file or, with a trailing slash, an empty directory that a datum left in `/pfs/out`. `bytes` (base64) if it is small; else the content was uploaded under the lease before. */
export const Output = z.object({
  path: z.string(),
  digest: ContentId.shape.digest,
  size: ContentId.shape.size,
  bytes: InlineContent.shape.bytes.optional(),
});
export type Output = z.infer<typeof Output>;

/** What ran a datum's command: the executor, and the image by its digest in its registry or by its id; null for processes, which have none. */
export const Ran = z.object({
  executor: z.string().max(100),
  image: z.string().max(1000).nullable(),
});
export type Ran = z.infer<typeof Ran>;

export const Outcome = z.discriminatedUnion("state", [
  z.object({
    lease: z.string(),
    state: z.literal("success"),
    exitCode: z.int(),
    outputs: list(Output).max(MAX_OUTPUTS_PER_DATUM),
    /** The upload that holds contents too large to travel here. */
    upload: z.string().optional(),
    millis: z.int().nonnegative(),
    /** What ran the command. */
    ran: Ran,
  }),
  z.object({
    lease: z.string(),
    state: z.literal("failed"),
    /** Null if the command did not start or was killed. */
    exitCode: z.int().nullable(),
    reason: z.string().max(2000),
    log: z.string().max(2 * LOG_TAIL_BYTES),
    millis: z.int().nonnegative(),
    /** The datum's fault (its command ended badly or too late, or left what can't be stored), or else the node's. */
    blame: z.enum(["datum", "node"]),
    /** No datum of the job can run, and trying again is of no use (a secret that is not there): the job ends with this reason. */
    endsJob: z.literal(true).optional(),
  }),
  /** A merge task is done. The content is in the output branch, or comes along as `bytes` (base64) if it is small. */
  z.object({
    lease: z.string(),
    state: z.literal("merged"),
    content: ContentId,
    bytes: InlineContent.shape.bytes.optional(),
    /** The upload that holds it, if it is too large to travel here. */
    upload: z.string().optional(),
    millis: z.int().nonnegative(),
  }),
  /** An egress task is done: every entry of it is in the external store. */
  z.object({
    lease: z.string(),
    state: z.literal("pushed"),
    millis: z.int().nonnegative(),
    /** What the job's readers should know of the store. */
    remark: z.string().max(2000).optional(),
  }),
  /** The runner gives it back, unharmed: it is shutting down. */
  z.object({ lease: z.string(), state: z.literal("returned") }),
]);
export type Outcome = z.infer<typeof Outcome>;

/** `POST /api/v1/runner/finish` */
export const FinishRequest = z.object({
  pipeline: Name,
  worker: z.string(),
  outcomes: list(Outcome).min(1).max(MAX_BATCH),
});
/** Leases whose outcome was not recorded because they were lost before. */
export const Finished = z.object({ lost: z.array(z.string()) });

/** Longest line of a log, in characters; a longer one is cut into several. */
export const MAX_LOG_LINE_CHARACTERS = 4096;
/** Most lines in one logs call, and about the most characters. */
export const MAX_LOG_LINES = 2000;
export const MAX_LOGS_CHARACTERS = 512 * 1024;

/** Where a command wrote a line. */
export const LogStream = z.enum(["stdout", "stderr"]);
export type LogStream = z.infer<typeof LogStream>;

/** As POSIX numbers them. */
export const STREAM_NUMBERS = { stdout: 1, stderr: 2 } as const satisfies Record<LogStream, number>;

/**
 * `POST /api/v1/runner/logs`: what commands printed since the last call. Sent while the lease is held, and before its
 * outcome. A repeated call is told by `seq`, so that no line is kept twice.
 */
export const LogsRequest = z.object({
  pipeline: Name,
  worker: z.string().min(1).max(200),
  entries: list(
    z.object({
      lease: z.string(),
      /** Counts the entries of this lease: 0, 1, … */
      seq: z.int().nonnegative(),
      /** Lines that were left out before these, since more was printed than can be kept. */
      dropped: z.int().nonnegative(),
      /** How many milliseconds ago the line was printed, and the line. Ages, not times: the node's clock may be wrong. */
      lines: list(z.tuple([z.int().nonnegative(), z.string().max(MAX_LOG_LINE_CHARACTERS)])).max(
        MAX_LOG_LINES,
      ),
      /**
       * The streams of the lines, a character each: `1` for stdout, `2` for stderr. One text, and not a value for each line,
       * since gateways bound the values of a call. Absent: they are not known, as older runners can't tell them.
       */
      streams: z
        .string()
        .regex(/^[12]*$/, { error: "has a character other than '1' and '2'" })
        .max(MAX_LOG_LINES)
        .optional(),
    }),
  )
    .min(1)
    .max(MAX_BATCH),
});
export type LogsRequest = z.infer<typeof LogsRequest>;
/** Leases that are lost: what they print is not wanted any more. */
export const LogsTaken = z.object({ lost: z.array(z.string()) });

export const Node = z.object({
  name: z.string(),
  executor: z.string(),
  capacity: z.int(),
  seenAt: z.int(),
  live: z.boolean(),
  /** It finishes what runs and gets nothing new (`sluice node drain`). */
  draining: z.boolean(),
  work: z.array(NodeWork),
  /** Absent: it has room for any number. */
  bounds: NodeBounds.optional(),
  about: NodeAbout.optional(),
});
export type Node = z.infer<typeof Node>;

/** `GET /api/v1/nodes`: those that were heard of in the last day. */
export const NodeList = z.object({ nodes: z.array(Node) });
export type NodeList = z.infer<typeof NodeList>;
