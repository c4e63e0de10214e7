import { existsSync, readdirSync, readFileSync, statfsSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { arch, cpus, freemem, loadavg, platform, release, totalmem, uptime } from "node:os";
import { join, resolve } from "node:path";
import { z } from "zod";
import { readHolder } from "../../embedded/data/holder.ts";
import { readKeptLog } from "../../embedded/data/kept-log.ts";
import { readRootKey } from "../../embedded/data/keys.ts";
import { KeptLines, PipelineLoops } from "../../protocol/admin.ts";
import { Pipeline, PipelineList } from "../../protocol/pipelines.ts";
import { WIRE_VERSION } from "../../protocol/runner.ts";
import { forEachLimited } from "../../runner/lib/concurrency.ts";
import { messageOf } from "../../runner/lib/fault.ts";
import { examine } from "../doctor/run-doctor.ts";
import { Client } from "../gateway/client.ts";
import {
  type Connection,
  type ConnectionOptions,
  DEFAULT_DATA,
  findConnection,
} from "../gateway/connection/connection.ts";
import { contextNames, readContext } from "../gateway/connection/contexts.ts";
import { count, printJson, printLine, printNote, showSize } from "../output/output.ts";
import { type Part, writeBundle } from "./bundle.ts";
import { isSecretName, REDACTED, Redactor } from "./redact.ts";

export interface SupportOptions extends ConnectionOptions {
  readonly out?: string;
  readonly json?: true;
}

const ROOT = join(import.meta.dirname, "../..");
/** Most bytes of one part; of a longer one the end is left out, of the log the beginning. */
const PART_BYTES = 2 * 1024 * 1024;
const MAX_PIPELINES = 200;
const MAX_JOBS = 100;
const MAX_FILES = 200;
const ASKED_AT_ONCE = 4;
/** A gateway that is in trouble may answer slowly, or not at all; milliseconds. */
const PATIENCE_MS = 20_000;

/** What could not be collected, and why. */
interface Missing {
  readonly part: string;
  readonly why: string;
}

/** What is collected, and whoever takes the secrets out of it. */
interface Collection {
  readonly parts: Part[];
  readonly missing: Missing[];
  readonly redactor: Redactor;
}

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
  const raw = connection ? await askGateway(connection, collection) : new Map<string, unknown>();
  const here: Readonly<Record<string, () => unknown>> = {
    "versions.json": versions,
    "settings.json": () => settings(dataDir, { connection, redactor }),
    "data-folder.json": () => dataFolder(dataDir),
    "doctor.json": () => examine({ data: join(dataDir, "runner"), executor: "auto" }, options),
  };
  for (const [part, collect] of Object.entries(here)) {
    await attempt(part, collection, async () => void raw.set(part, await collect()));
  }
  if (!raw.has("log.txt"))
    await attempt("log.txt", collection, () => void raw.set("log.txt", keptHere(dataDir)));
  for (const [name, value] of [...raw].sort(([one], [other]) => (one < other ? -1 : 1))) {
    parts.push({ name, text: textOf(value, redactor) });
  }
  parts.unshift({ name: "README.txt", text: redactor.text(readme(collection, now)) });
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

async function attempt(
  part: string,
  { missing }: Pick<Collection, "missing">,
  act: () => unknown,
): Promise<boolean> {
  try {
    await act();
    return true;
  } catch (error) {
    missing.push({ part, why: messageOf(error) });
    return false;
  }
}

/** What this machine has of secrets, so that none of it goes along wherever it stands. */
function addOwnSecrets(redactor: Redactor, dataDir: string): void {
  redactor.addVariables(process.env);
  for (const read of [
    () => redactor.add(readRootKey(dataDir)?.secretAccessKey),
    () => redactor.add(encryptionKeyOf(dataDir)),
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

function encryptionKeyOf(dataDir: string): string {
  return KeptEncryptionKey.parse(JSON.parse(readFileSync(join(dataDir, "encryption-key.json"), "utf8")))
    .encryptionKey;
}

function connect(options: SupportOptions, { missing }: Collection): Connection | undefined {
  try {
    const { data, context, endpoint } = options;
    return findConnection({ data, context, endpoint } as ConnectionOptions, process.env);
  } catch (error) {
    missing.push({ part: "what the gateway tells", why: messageOf(error) });
    return undefined;
  }
}

/** What the gateway tells of itself. The first question that it leaves open is the last one, if nobody answers at all. */
async function askGateway(connection: Connection, collection: Collection): Promise<Map<string, unknown>> {
  const told = new Map<string, unknown>();
  const client = new Client(connection);
  const get = (path: string, query: Record<string, string> = {}) =>
    client.call(z.unknown(), { method: "GET", path, query, patienceMs: PATIENCE_MS });
  try {
    const isThere = await attempt("what the gateway tells", collection, async () =>
      told.set("key.json", await get("/whoami")),
    );
    if (!isThere) return told;
    await attempt("pipelines.json", collection, async () =>
      told.set("pipelines.json", await pipelines(client, collection.redactor)),
    );
    for (const [part, path, query] of [
      ["now.json", "/now", {}],
      ["jobs.json", "/jobs", { limit: String(MAX_JOBS) }],
      ["nodes.json", "/nodes", {}],
      ["usage.json", "/usage", {}],
    ] as const) {
      await attempt(part, collection, async () => told.set(part, await get(path, query)));
    }
    await attempt("ready.json", collection, async () => told.set("ready.json", await readiness(client)));
    await attempt("log.txt", collection, async () =>
      told.set("log.txt", KeptLines.parse(await get("/admin/log")).lines),
    );
    return told;
  } finally {
    await client.close();
  }
}

/** A gateway that can't serve answers 503 with the causes: that is an answer, too. */
async function readiness({ connection }: Client): Promise<unknown> {
  const { AwsClient } = await import("aws4fetch");
  const { accessKeyId, secretAccessKey, endpoint } = connection;
  const signer = new AwsClient({ accessKeyId, secretAccessKey, service: "s3", region: "auto" });
  const request = await signer.sign(`${endpoint}/readyz`);
  const answer = await fetch(request, { signal: AbortSignal.timeout(PATIENCE_MS) });
  return await answer.json();
}

/** What is enough to see how they stand. Commands and their variables stay out: whoever wrote them may have put secrets there. */
async function pipelines(client: Client, redactor: Redactor): Promise<unknown> {
  const list = await client.call(PipelineList, {
    method: "GET",
    path: "/pipelines",
    patienceMs: PATIENCE_MS,
  });
  const told: object[] = [];
  await forEachLimited(list.pipelines.slice(0, MAX_PIPELINES), {
    limit: ASKED_AT_ONCE,
    work: async ({ name, inputs, output }) => {
      const path = `/pipelines/${encodeURIComponent(name)}`;
      const { spec, state, version, reason, limited, createdAt } = await client.call(Pipeline, {
        ...{ method: "GET", path, patienceMs: PATIENCE_MS },
      });
      const loops = await client
        .call(PipelineLoops, { method: "GET", path: `${path}/loops`, patienceMs: PATIENCE_MS })
        .catch((error: unknown) => messageOf(error));
      const { env = {}, image = null } = spec.transform;
      redactor.addOfPipeline(env);
      const variables = Object.keys(env);
      told.push({
        name,
        state,
        version,
        reason,
        limited,
        createdAt,
        inputs,
        output,
        image,
        variables,
        loops,
      });
    },
  });
  return { total: list.pipelines.length, pipelines: told };
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
  return {
    // Of the shell that this command was started in. The gateway has those of its own start.
    variables: shown(process.env),
    gateway: holder && { ...holder, ...gatewayProcess(holder.pid, redactor) },
    asked: connection
      ? {
          endpoint: connection.endpoint,
          from: connection.endpointSource,
          key: connection.accessKeyId,
          keyFrom: connection.keySource,
        }
      : null,
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

function readme({ parts, missing }: Collection, now: number): string {
  const lines = parts.map(({ name }) => `${name.padEnd(18)} ${WHAT[name] ?? ""}`.trimEnd());
  const without = missing.map(({ part, why }) => `${part}: ${why}`);
  return [
    `Made by 'sluice support' at ${new Date(now).toISOString()}.`,
    "",
    ...lines,
    "",
    `In the place of secrets stands ${REDACTED}: of keys, passwords and tokens, of variables of pipelines, of signatures`,
    "in addresses and headers. Names of repos, files, nodes and keys' ids are as they are. No file of a repo is in it.",
    ...(without.length > 0 ? ["", "What could not be collected:", ...without] : []),
    "",
  ].join("\n");
}
