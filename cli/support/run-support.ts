import { existsSync, readdirSync, readFileSync, statfsSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { createRequire } from "node:module";
import { arch, cpus, freemem, loadavg, platform, release, totalmem, uptime } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { z } from "zod";
import { readHolder } from "../../embedded/data/holder.ts";
import { readKeptLog } from "../../embedded/data/kept-log.ts";
import { readRootKey } from "../../embedded/data/keys.ts";
import { WIRE_VERSION } from "../../protocol/runner.ts";
import { messageOf } from "../../runner/lib/fault.ts";
import { paddingOf, TAR_END, tarHeader } from "../archive/tar.ts";
import { examine } from "../doctor/run-doctor.ts";
import {
  type Connection,
  type ConnectionOptions,
  DEFAULT_DATA,
  findConnection,
} from "../gateway/connection/connection.ts";
import { contextNames, readContext } from "../gateway/connection/contexts.ts";
import { CliError } from "../output/failure.ts";
import { liveText } from "../output/live-line.ts";
import { count, printJson, printLine, printNote, showSize } from "../output/output.ts";
import { isSecretName, REDACTED, Redactor } from "../output/redact.ts";
import { type Asked, askGateway, attempt, MAX_JOBS, type Told } from "./ask-gateway.ts";

export interface SupportOptions extends ConnectionOptions {
  readonly out?: string;
  readonly json?: true;
}

const ROOT = join(import.meta.dirname, "../..");
/** Most bytes of one part; of a longer one the end is left out, of the log the beginning. */
const PART_BYTES = 2 * 1024 * 1024;
const MAX_FILES = 200;

/** What is collected, and whoever takes the secrets out of it. */
interface Collection extends Asked {
  readonly parts: Part[];
}

const NOTHING_TOLD: Told = { parts: new Map(), answers: false };

/** Writes all that helps to find out what is wrong into one file, without secrets, and says where it is. */
export async function runSupport(options: SupportOptions): Promise<void> {
  const now = Date.now();
  const folder = `sluice-support-${new Date(now).toISOString().replace(/[:.]/g, "-")}`;
  const file = resolve(options.out ?? `${folder}.tar.gz`);
  const collection: Collection = { parts: [], missing: [], redactor: new Redactor() };
  const { parts, missing, redactor } = collection;
  const dataDir = options.data ?? DEFAULT_DATA;
  addOwnSecrets(redactor, dataDir);
  const connection = connect(options, collection);
  redactor.add(connection?.secretAccessKey);
  // Its variables have to be known before anything is written down.
  const told = connection
    ? await askGateway(connection, collection, { live: liveText(options) })
    : NOTHING_TOLD;
  const raw = new Map(told.parts);
  const here: Readonly<Record<string, () => unknown>> = {
    "versions.json": versions,
    "settings.json": () => settings(dataDir, { connection, redactor }),
    "data-folder.json": () => dataFolder(dataDir),
    "doctor.json": () => examine({ data: join(dataDir, "runner"), executor: "auto" }, options),
  };
  for (const [part, collect] of Object.entries(here)) {
    await attempt(part, collection, async () => void raw.set(part, await collect()));
  }
  // One that answers keeps back what this key may not see, such as variables of pipelines that the log may quote.
  if (!told.answers) await attempt("log.txt", collection, () => void raw.set("log.txt", keptHere(dataDir)));
  for (const [name, value] of [...raw].sort(([one], [other]) => (one < other ? -1 : 1))) {
    parts.push({ name, text: textOf(value, redactor) });
  }
  parts.unshift({ name: "README.txt", text: redactor.text(readme(collection, { now, told })) });
  const bytes = await writeBundle(file, { folder, parts, now });
  if (options.json) {
    printJson({ file, bytes, parts: parts.map(({ name }) => name), missing: redactor.value(missing) });
    return;
  }
  printLine(`${file}  ${showSize(bytes)}`);
  for (const { part, why } of missing) printNote(redactor.text(`without ${part}: ${why}`));
  printNote(
    `It has ${count(parts.length, "file")}: ${parts.map(({ name }) => name).join(", ")}. Secrets are taken out; names of repos, files and nodes are not. Look at it before you send it.`,
  );
}

/** What this machine has of secrets, so that none of it goes along wherever it stands. */
function addOwnSecrets(redactor: Redactor, dataDir: string): void {
  redactor.addVariables(process.env);
  for (const read of [
    () => redactor.add(readRootKey(dataDir)?.secretAccessKey),
    () => {
      const text = readFileSync(join(dataDir, "encryption-key.json"), "utf8");
      redactor.add(KeptEncryptionKey.parse(JSON.parse(text)).encryptionKey);
    },
    ...contexts().map((name) => () => redactor.add(readContext(name, process.env).secretAccessKey)),
  ]) {
    try {
      read();
    } catch {
      // What can't be read here is nowhere else in what is collected.
    }
  }
}

function contexts(): string[] {
  try {
    return contextNames(process.env);
  } catch {
    return [];
  }
}

const KeptEncryptionKey = z.object({ encryptionKey: z.string() });

function connect(options: SupportOptions, { missing }: Collection): Connection | undefined {
  try {
    const { data, context, endpoint } = options;
    return findConnection({ data, context, endpoint } as ConnectionOptions, process.env);
  } catch (error) {
    missing.push({ part: "what the gateway tells", why: messageOf(error) });
    return undefined;
  }
}

function keptHere(dataDir: string): string[] {
  const lines = readKeptLog(dataDir);
  if (lines.length === 0) throw new Error(`${dataDir} has no log of a gateway`);
  return lines;
}

function versions(): object {
  const require = createRequire(join(ROOT, "package.json"));
  // It is a package of Miniflare's.
  const ofMiniflare = createRequire(require.resolve("miniflare"));
  return {
    sluice: versionOf(require("./package.json")),
    wire: WIRE_VERSION,
    node: process.version,
    workerd: versionOf(ofMiniflare("workerd/package.json")),
    system: { platform: platform(), release: release(), arch: arch(), distribution: distribution() },
    machine: {
      cores: cpus().length,
      memoryBytes: totalmem(),
      freeMemoryBytes: freemem(),
      load: loadavg(),
      upSeconds: Math.floor(uptime()),
    },
  };
}

function versionOf(read: unknown): string {
  return z.object({ version: z.string() }).parse(read).version;
}

function distribution(): string | null {
  try {
    const text = readFileSync("/etc/os-release", "utf8");
    return /^PRETTY_NAME="?([^"\n]*)/m.exec(text)?.[1] ?? null;
  } catch {
    return null;
  }
}

/** Variables that decide what commands and gateways do. */
const OURS = /^(SLUICE_|AWS_|DOCKER_HOST$|CONTAINER_HOST$|NODE_OPTIONS$|XDG_|(HTTPS?|NO)_PROXY$)/i;

function settings(
  dataDir: string,
  { connection, redactor }: { connection: Connection | undefined; redactor: Redactor },
): object {
  const holder = readHolder(dataDir) ?? null;
  const { endpoint, endpointSource: from, accessKeyId: key, keySource: keyFrom } = connection ?? {};
  const asked = connection ? { endpoint, from, key, keyFrom } : null;
  return {
    // Of the shell that this command was started in. The gateway has those of its own start.
    variables: shown(process.env),
    gateway: holder && { ...holder, ...gatewayProcess(holder.pid, redactor) },
    asked,
    contexts: contexts(),
  };
}

function shown(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const ours = Object.entries(env).filter(([name]) => OURS.test(name));
  return Object.fromEntries(ours.map(([name, value = ""]) => [name, isSecretName(name) ? REDACTED : value]));
}

/** What the gateway of this machine was started with, as far as its user may look. Empty elsewhere than on Linux. */
function gatewayProcess(pid: number, redactor: Redactor): object {
  try {
    const split = (file: string) => readFileSync(`/proc/${pid}/${file}`, "utf8").split("\0").filter(Boolean);
    const command = split("cmdline");
    // The number may be that of another process by now.
    if (!command.includes("dev")) return { running: false };
    const env = Object.fromEntries(
      split("environ").map((line) => {
        const at = line.indexOf("=");
        return [line.slice(0, at), line.slice(at + 1)];
      }),
    );
    redactor.addVariables(env);
    return { running: true, command, variables: shown(env) };
  } catch {
    return {};
  }
}

/** The files of the folder and of its databases, the largest first, and what is free. Blobs are too many to be looked at. */
function dataFolder(dataDir: string): object {
  const path = resolve(dataDir);
  if (!existsSync(path))
    throw new Error(`there is no folder ${dataDir} here: --data names that of a gateway`);
  const { bavail, blocks, bsize } = statfsSync(path);
  const files = [...filesOf(path), ...filesOf(join(path, "state"), { recursive: true })];
  files.sort((one, other) => other.bytes - one.bytes);
  return {
    path,
    freeBytes: bavail * bsize,
    totalBytes: blocks * bsize,
    files: files.slice(0, MAX_FILES),
    more: Math.max(0, files.length - MAX_FILES),
  };
}

function filesOf(
  folder: string,
  { recursive = false }: { recursive?: boolean } = {},
): { name: string; bytes: number; changedAt: string }[] {
  let names: string[];
  try {
    names = readdirSync(folder, { recursive, encoding: "utf8" });
  } catch {
    return [];
  }
  return names.flatMap((name) => {
    const found = statSync(join(folder, name), { throwIfNoEntry: false });
    return found?.isFile() ? [{ name, bytes: found.size, changedAt: found.mtime.toISOString() }] : [];
  });
}

function textOf(value: unknown, redactor: Redactor): string {
  if (Array.isArray(value) && value.every((line) => typeof line === "string")) {
    const text = value.map((line) => redactor.line(line)).join("\n");
    return `${text.slice(-PART_BYTES)}\n`;
  }
  const text = JSON.stringify(redactor.value(value), null, 2);
  return text.length <= PART_BYTES ? `${text}\n` : `${text.slice(0, PART_BYTES)}\n… cut here\n`;
}

const WHAT: Readonly<Record<string, string>> = {
  "data-folder.json": "the data folder: its files and databases by size, and what is free on its disk",
  "doctor.json": "what sluice doctor finds on this machine",
  "jobs.json": `the newest ${MAX_JOBS} jobs, their states and reasons`,
  "key.json": "the key that asked, and what it may do; not its secret",
  "log.txt": "the newest lines of the gateway's log, oldest first",
  "nodes.json": "the nodes and what runs there",
  "now.json": "what is under way, what failed in the last day, and what it waits for",
  "pipelines.json":
    "the pipelines in short: state, version, reason, image, and how the loops of their objects stand; names of variables, no values, no commands",
  "ready.json": "what the gateway lacks, and what is almost full",
  "settings.json":
    "variables of this shell and of the gateway's process, and where gateway and key come from",
  "usage.json": "how full the catalogue is",
  "versions.json": "versions of Sluice, Node, workerd and the system, and the machine",
};

/** A log is what helps most then. */
const VARIABLES_UNKNOWN =
  "No gateway told what variables of pipelines hold: look whether lines of log.txt quote one of them before you send it.";

function readme(
  { parts, missing }: Collection,
  { now, told }: { readonly now: number; readonly told: Told },
): string {
  const lines = parts.map(({ name }) => `${name.padEnd(18)} ${WHAT[name] ?? ""}`.trimEnd());
  const without = missing.map(({ part, why }) => `${part}: ${why}`);
  return [
    `Made by 'sluice support' at ${new Date(now).toISOString()}.`,
    "",
    ...lines,
    "",
    `In the place of secrets stands ${REDACTED}: of keys, passwords and tokens, of variables of pipelines, of signatures`,
    "in addresses and headers. Names of repos, files, nodes and keys' ids are as they are. No file of a repo is in it.",
    ...(told.answers ? [] : ["", VARIABLES_UNKNOWN]),
    ...(without.length > 0 ? ["", "What could not be collected:", ...without] : []),
    "",
  ].join("\n");
}

/** A file of what is to be sent. */
interface Part {
  readonly name: string;
  readonly text: string;
}

/** Writes a new file that only its owner may read: a gzipped tar of a folder with these parts. Returns its size in bytes. */
async function writeBundle(
  file: string,
  { folder, parts, now }: { readonly folder: string; readonly parts: readonly Part[]; readonly now: number },
): Promise<number> {
  const blocks = parts.flatMap(({ name, text }) => {
    const bytes = Buffer.from(text);
    const header = tarHeader({ name: `${folder}/${name}`, size: bytes.length }, now / 1000);
    return [header, bytes, Buffer.alloc(paddingOf(bytes.length))];
  });
  const packed = await promisify(gzip)(Buffer.concat([...blocks, TAR_END]));
  const handle = await open(file, "wx", 0o600).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
    throw new CliError(`${file} is there already: name another file with --out, or remove it`, {
      code: "FileExists",
    });
  });
  try {
    await handle.writeFile(packed);
  } finally {
    await handle.close();
  }
  return packed.length;
}
