import { readFileSync } from "node:fs";
import { join, normalize } from "node:path";
import { findTool } from "../../../runner/lib/system-calls.ts";

/**
 * What processes did to the files of a folder, as strace saw it. Whatever might change a file in a way that is not understood
 * here is an error: a recording has all or nothing.
 */

/** Something that happened to a path. */
export type Change =
  | { readonly kind: "open"; readonly path: string; readonly fd: number; readonly flags: ReadonlySet<string> }
  /** `offset` null: after what was written through that `fd` before. */
  | {
      readonly kind: "write";
      readonly path: string;
      readonly fd: number;
      readonly offset: number | null;
      readonly data: Buffer;
    }
  | { readonly kind: "truncate"; readonly path: string; readonly size: number }
  | { readonly kind: "flush"; readonly path: string }
  | { readonly kind: "mkdir" | "unlink"; readonly path: string }
  | { readonly kind: "rename"; readonly path: string; readonly to: string };

/** `begun` and `done`: places in the recording; what others did may lie between. */
export type Event = Change & { readonly begun: number; readonly done: number };

export interface Recording {
  readonly events: readonly Event[];
  /** When the call at a place was made; milliseconds since 1970. */
  at(place: number): number;
  /** The first place whose call was made after a time. */
  after(ms: number): number;
}

/** Most bytes that one call writes. */
const DATA_BYTES = 1 << 24;

/** What may change a file, or flush it. */
const CALLS = [
  ...[
    "openat",
    "open",
    "creat",
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "pwritev2",
    "ftruncate",
    "truncate",
  ],
  ...["fallocate", "copy_file_range", "sendfile", "splice", "mmap", "fsync", "fdatasync"],
  ...["rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat"],
  ...["unlink", "unlinkat", "mkdir", "mkdirat", "rmdir"],
] as const;

/** Whether this machine lacks strace. */
export async function lacksStrace(): Promise<boolean> {
  return (await findTool("strace")) === undefined;
}

/** How a write to a socket begins. What is said there is six times what is written to files. */
const SOCKET = `^[0-9 .]*write[v64p]*([0-9]*<${[..."socket"].map(hexOf).join("")}`;

/** The command line that runs a command, and what it starts, and records in a file what it does to files. */
export function recorded(command: readonly string[], file: string): string[] {
  const filter = `|grep -v '${SOCKET}' > '${file}'`;
  const how = ["-f", "--seccomp-bpf", "-ttt", "-y", "-xx", "-s", String(DATA_BYTES), "-o", filter];
  return ["strace", ...how, "-e", `trace=${CALLS.join(",")}`, ...command];
}

/** Reads what was recorded of what is below `root`. */
export function readRecording(file: string, root: string): Recording {
  const lines = readFileSync(file, "latin1").split("\n");
  const times = lines.map((line) => Number(TIME.exec(line)?.[1] ?? 0) * 1000);
  const begun = new Map<string, { text: string; place: number }>();
  const events: Event[] = [];
  for (const [place, line] of lines.entries()) {
    const [, thread = "", text = ""] = LINE.exec(line) ?? [];
    if (text.endsWith(UNFINISHED)) {
      begun.set(thread, { text: text.slice(0, -UNFINISHED.length), place });
      continue;
    }
    const resumed = /^<\.\.\. \w+ resumed>/.exec(text)?.[0];
    const before = resumed === undefined ? undefined : begun.get(thread);
    // The beginning of a call that is not recorded is not there: what was begun before must not be taken for it.
    begun.delete(thread);
    const whole = before ? before.text + text.slice(resumed?.length) : text;
    const change = changeOf(whole, root);
    if (change) events.push({ ...change, begun: before?.place ?? place, done: place });
  }
  return {
    events,
    at: (place) => times[place] || Number.POSITIVE_INFINITY,
    after(ms) {
      const place = times.findIndex((time) => time > ms);
      return place < 0 ? lines.length : place;
    },
  };
}

const LINE = /^(\d+) +[\d.]+ (.*)$/;
const TIME = /^\d+ +([\d.]+) /;
const UNFINISHED = " <unfinished ...>";

function changeOf(line: string, root: string): Change | undefined {
  const [, name = "", text = "", result = ""] = /^(\w+)\((.*)\) += (-?\d+|0x[0-9a-f]+)/.exec(line) ?? [];
  if (name === "" || result === "-1") return undefined;
  const call = new Call(name, text.split(", "));
  const paths = call.paths().filter((path) => isWithin(path, root));
  // Memory that is shared by the files of the same database; it does not outlast a crash.
  const path = paths.find((each) => !each.endsWith("-shm"));
  if (path === undefined) return undefined;
  const change = understood(call, { path, result });
  if (change === "unknown") throw new Error(`not understood: ${line.slice(0, 500)}`);
  return change;
}

function isWithin(path: string, root: string): boolean {
  return path === root || path.startsWith(`${root}/`);
}

function understood(
  call: Call,
  { path, result }: { path: string; result: string },
): Change | undefined | "unknown" {
  switch (call.name) {
    case "openat":
    case "open": {
      const flags = new Set((call.args[call.name === "open" ? 1 : 2] ?? "").split("|"));
      return flags.has("O_RDONLY")
        ? undefined
        : { kind: "open", path, fd: Number.parseInt(result, 10), flags };
    }
    case "write":
      return { kind: "write", path, fd: call.fd(), offset: null, data: call.data(Number(result)) };
    case "pwrite64":
      return {
        kind: "write",
        path,
        fd: call.fd(),
        offset: Number(call.args[3]),
        data: call.data(Number(result)),
      };
    case "ftruncate":
      return { kind: "truncate", path, size: Number(call.args[1]) };
    case "fsync":
    case "fdatasync":
      return { kind: "flush", path };
    case "mkdir":
    case "mkdirat":
      return { kind: "mkdir", path };
    case "unlink":
      return { kind: "unlink", path };
    case "unlinkat":
      return call.args[2] === "0" ? { kind: "unlink", path } : "unknown";
    case "rename": {
      const [from = "", to = ""] = call.paths();
      return { kind: "rename", path: from, to };
    }
    case "mmap":
      // A file that is mapped to be read, or whose changes stay in memory.
      return call.args[2]?.includes("PROT_WRITE") && call.args[3]?.includes("MAP_SHARED")
        ? "unknown"
        : undefined;
    default:
      return "unknown";
  }
}

/** A call as strace writes it; texts and paths are in hexadecimal digits, so that no comma is in them. */
class Call {
  readonly name: string;
  readonly args: readonly string[];

  constructor(name: string, args: readonly string[]) {
    this.name = name;
    this.args = args;
  }

  fd(): number {
    return Number.parseInt(this.args[0] ?? "", 10);
  }

  /** What a write took of what it was given. */
  data(taken: number): Buffer {
    const text = this.args[1] ?? "";
    if (!text.endsWith('"')) throw new Error(`a write was recorded in part: ${this.name}`);
    return decoded(text.slice(1, -1)).subarray(0, taken);
  }

  /** Those that the call names, whole. A file that has no name any more has no path. */
  paths(): string[] {
    const paths: string[] = [];
    let folder: string | undefined;
    for (const [place, arg] of this.args.entries()) {
      const opened = /^(?:AT_FDCWD|\d+)<([^>]*)>(\(deleted\))?$/.exec(arg);
      if (opened) {
        const isAt = /at2?$/.test(this.name) && this.name !== "creat";
        const path = decoded(opened[1] ?? "").toString();
        if (isAt) folder = path;
        else if (!opened[2] && !path.endsWith(" (deleted)")) paths.push(path);
      } else if (arg.startsWith('"') && !(place === 1 && WRITES.has(this.name))) {
        const path = decoded(arg.slice(1, -1)).toString();
        paths.push(normalize(path.startsWith("/") ? path : join(folder ?? "/", path)));
      }
    }
    return paths;
  }
}

const WRITES: ReadonlySet<string> = new Set(["write", "pwrite64"]);

function hexOf(letter: string): string {
  return String.raw`\\x${letter.charCodeAt(0).toString(16)}`;
}

function decoded(text: string): Buffer {
  return Buffer.from(text.replaceAll("\\x", ""), "hex");
}
