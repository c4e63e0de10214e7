import { readFileSync } from "node:fs";
import { createRequire, SourceMap } from "node:module";
import { join } from "node:path";
import type { Miniflare, WorkerdStructuredLog } from "miniflare";
import { z } from "zod";

/** What the host tells the person who runs it; a pino logger fits. */
export interface HostLog {
  debug(message: string): void;
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** A Worker: one ES module, and the WebAssembly modules that it imports as `./<name>`. */
export interface WorkerCode {
  readonly main: string;
  readonly wasm: ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
  /** From `main` to the files that it was made of; stack traces in the log name those. */
  readonly sourceMap?: string;
}

interface RuntimeWorker {
  /** The Worker; a text is an ES module that imports nothing. */
  readonly code: WorkerCode | string;
  readonly bindings: Record<string, Binding>;
  /** SQLite classes that the Worker exports as Durable Objects. */
  readonly objectClasses: readonly string[];
  /** The address for requests; absent for a runtime that is only reached from here. */
  readonly listen?: { readonly host: string; readonly port: number };
}

export interface RuntimeOptions extends RuntimeConfig, RuntimeWorker {
  /** More Workers, by their names. */
  readonly others?: Readonly<Record<string, RuntimeWorker>>;
  /** The folder of Durable Objects and D1. */
  readonly stateDir: string;
  /** Environment of the workerd process. */
  readonly workerdEnv: Record<string, string>;
  readonly log: HostLog;
  /** Called if the runtime died by itself, before another one is started. */
  readonly onDeath?: () => void;
}

export const WORKER_NAME = "sluice";

export type Binding =
  | { readonly type: "text"; readonly value: string }
  | { readonly type: "d1"; readonly id: string }
  | { readonly type: "durable-object"; readonly worker: string; readonly exportName: string }
  | { readonly type: "disk"; readonly path: string; readonly writable: boolean }
  | { readonly type: "r2"; readonly name: string }
  /** What the Worker fetches of it, this process answers, in JSON. */
  | { readonly type: "host"; readonly answer: (request: HostRequest) => Promise<HostAnswer> };

/** What of a request to this process is looked at. */
export interface HostRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: { get(name: string): string | null };
  json(): Promise<unknown>;
}

export interface HostAnswer {
  readonly status: number;
  readonly body: unknown;
}

/**
 * Starts workerd through Miniflare. Requests reach the Worker by a direct socket, past Miniflare's own entry Worker,
 * which would rewrite headers and cost most of the speed. Nothing here goes to the network.
 */
export async function startRuntime(options: RuntimeOptions): Promise<Miniflare> {
  const signals = keepSignalHandlers();
  const miniflare = new (loadMiniflare().Miniflare)({
    host: "127.0.0.1",
    port: 0,
    cf: false,
    telemetry: { enabled: false },
    enableDevRegistry: false,
    logRequests: false,
    log: deathLog(options),
    resourcePersistencePath: options.stateDir,
    unsafeRuntimeEnv: options.workerdEnv,
    handleStructuredLogs: reportTo(options),
    workers: Object.entries({ [WORKER_NAME]: options, ...options.others }).map(
      ([name, { code, bindings, objectClasses, listen }]) => ({
        config: {
          name,
          compatibilityDate: options.compatibilityDate,
          compatibilityFlags: options.compatibilityFlags,
          manifest: modulesOf(code),
          env: Object.fromEntries(
            Object.entries(bindings).map(([name, binding]) => [name, bindingOf(binding)]),
          ),
          exports: Object.fromEntries(
            objectClasses.map((name) => [
              name,
              { type: "durable-object" as const, storage: "sqlite" as const },
            ]),
          ),
        },
        dev: {
          rootPath: options.stateDir,
          unsafeRegisterWorker: false,
          ...(listen ? { unsafeDirectSockets: [{ ...listen }] } : {}),
        },
      }),
    ),
  });
  // Miniflare would end the whole process at the first signal; when to stop is for the caller to say.
  signals.restore();
  try {
    await miniflare.ready;
  } catch (error) {
    await miniflare.dispose();
    throw error;
  }
  return miniflare;
}

const DIED = /crashed unexpectedly/;

/** Miniflare starts a runtime that died anew, once; `ready` then tells whether it could. Of all that it logs, this is heard. */
function deathLog({ onDeath }: Pick<RuntimeOptions, "onDeath">) {
  const { Log, LogLevel } = loadMiniflare();
  class DeathLog extends Log {
    override warn(message: string): void {
      if (DIED.test(message)) onDeath?.();
    }
  }
  return new DeathLog(LogLevel.NONE);
}

function bindingOf(binding: Binding) {
  if (binding.type !== "host") return binding;
  const { answer } = binding;
  const { Response } = loadMiniflare();
  return {
    type: "fetcher" as const,
    async handler(request: HostRequest) {
      const { status, body } = await answer(request);
      return Response.json(body, { status });
    },
  };
}

function modulesOf(code: WorkerCode | string) {
  const { main, wasm } = typeof code === "string" ? { main: code, wasm: new Map() } : code;
  const compiled = [...wasm].map(([name, contents]) => [name, { type: "wasm" as const, contents }]);
  return {
    mainModule: "index.js",
    modules: { "index.js": { type: "esm" as const, contents: main }, ...Object.fromEntries(compiled) },
  };
}

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

function keepSignalHandlers(): { restore(): void } {
  const before = new Map(SIGNALS.map((signal) => [signal, new Set(process.listeners(signal))]));
  return {
    restore() {
      for (const [signal, kept] of before) {
        for (const listener of process.listeners(signal)) {
          if (!kept.has(listener)) process.off(signal, listener);
        }
      }
    },
  };
}

// An `import` would compile its six megabytes once more, only to see that they are CommonJS: 0.2 s.
function loadMiniflare(): typeof import("miniflare") {
  return createRequire(import.meta.url)("miniflare");
}

function reportTo({ code, log }: RuntimeOptions): (line: WorkerdStructuredLog) => void {
  let map: SourceMap | undefined;
  const original = (frame: string, line: string, column: string): string => {
    if (typeof code === "string" || code.sourceMap === undefined) return frame;
    map ??= new SourceMap(JSON.parse(code.sourceMap));
    const entry = map.findEntry(Number(line) - 1, Number(column) - 1);
    if (!("originalSource" in entry)) return frame;
    return `${join("/", entry.originalSource)}:${entry.originalLine + 1}:${entry.originalColumn + 1}`;
  };
  return ({ level, message }) => {
    if (TUNNEL_REFUSED.test(message)) return;
    const text = `gateway: ${message.replace(BUNDLE_FRAME, original)}`;
    if (level === "error") log.error(text);
    else if (level === "warn") log.warn(text);
    else log.info(text);
  };
}

/**
 * The runtime refuses a CONNECT itself, with 500, and logs that as a fault of the Worker. A handler would not help: the
 * runtime answers 200 before it calls one, so that scanners would take the gateway for an open proxy.
 */
const TUNNEL_REFUSED =
  /Did you remember to export a connect\(\) function|does not export a connect\(\) function/;

const BUNDLE_FRAME = /file:\/\/\S*\/index\.js:(\d+):(\d+)/g;

const RuntimeConfig = z
  .object({ compatibility_date: z.string(), compatibility_flags: z.array(z.string()) })
  .transform(({ compatibility_date: compatibilityDate, compatibility_flags: compatibilityFlags }) => {
    return { compatibilityDate, compatibilityFlags };
  });
/** What decides how workerd behaves, for this host as for `wrangler`. */
export type RuntimeConfig = z.infer<typeof RuntimeConfig>;

/**
 * Reads the runtime's settings from `wrangler.toml`, so that the embedded gateway and `wrangler` can't differ. They are
 * among its top-level keys, whose values (strings, arrays of strings) are JSON as well as TOML.
 */
export function readRuntimeConfig(file: string): RuntimeConfig {
  const [topLevel = ""] = readFileSync(file, "utf8").split(/^\[/m, 1);
  const values = [...topLevel.matchAll(/^(compatibility_\w+) *= *(.+)$/gm)].map(([, key, value]) => [
    key,
    JSON.parse(value ?? ""),
  ]);
  return RuntimeConfig.parse(Object.fromEntries(values));
}
