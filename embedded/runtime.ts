import { Miniflare, type WorkerdStructuredLog } from "miniflare";
import type { HostLog } from "./host-log.ts";
import type { RuntimeConfig } from "./wrangler-config.ts";

export interface RuntimeOptions extends RuntimeConfig {
  /** The Worker: one ES module. */
  readonly code: string;
  /** Where Durable Objects and D1 live. */
  readonly stateDir: string;
  /** Environment of the workerd process. */
  readonly workerdEnv: Record<string, string>;
  readonly bindings: Record<string, Binding>;
  /** SQLite classes that the Worker exports as Durable Objects. */
  readonly objectClasses: readonly string[];
  /** Where requests come in; absent for a runtime that is only reached from here. */
  readonly listen?: { readonly host: string; readonly port: number };
  readonly log: HostLog;
}

export const WORKER_NAME = "sluice";

export type Binding =
  | { readonly type: "text"; readonly value: string }
  | { readonly type: "d1"; readonly id: string }
  | { readonly type: "durable-object"; readonly worker: string; readonly exportName: string }
  | { readonly type: "disk"; readonly path: string; readonly writable: boolean };

/**
 * Starts workerd through Miniflare. Requests reach the Worker by a direct socket, past Miniflare's own entry Worker,
 * which would rewrite headers and cost most of the speed (design §1). Nothing here goes to the network.
 */
export async function startRuntime(options: RuntimeOptions): Promise<Miniflare> {
  const signals = keepSignalHandlers();
  const miniflare = new Miniflare({
    host: "127.0.0.1",
    port: 0,
    cf: false,
    telemetry: { enabled: false },
    enableDevRegistry: false,
    logRequests: false,
    resourcePersistencePath: options.stateDir,
    unsafeRuntimeEnv: options.workerdEnv,
    handleStructuredLogs: (line) => report(line, options.log),
    workers: [
      {
        config: {
          name: WORKER_NAME,
          compatibilityDate: options.compatibilityDate,
          compatibilityFlags: options.compatibilityFlags,
          manifest: {
            mainModule: "index.js",
            modules: { "index.js": { type: "esm", contents: options.code } },
          },
          env: { ...options.bindings },
          exports: Object.fromEntries(
            options.objectClasses.map((name) => [
              name,
              { type: "durable-object" as const, storage: "sqlite" as const },
            ]),
          ),
        },
        dev: {
          rootPath: options.stateDir,
          unsafeRegisterWorker: false,
          ...(options.listen ? { unsafeDirectSockets: [{ ...options.listen }] } : {}),
        },
      },
    ],
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

function report({ level, message }: WorkerdStructuredLog, log: HostLog): void {
  const line = `gateway: ${message}`;
  if (level === "error") log.error(line);
  else if (level === "warn") log.warn(line);
  else log.info(line);
}
