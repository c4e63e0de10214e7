import pino, { type LogFn, type Logger } from "pino";
import pretty from "pino-pretty";
import { visibleText } from "./output.ts";

/**
 * The log of the long-running commands, for people, on stderr. `SLUICE_LOG` sets the least level: debug, info, warn, error.
 * `kept`: what is told the same lines, as JSON.
 */
export function terminalLog(
  env: NodeJS.ProcessEnv,
  { kept }: { readonly kept?: { write(line: string): void } } = {},
): Logger {
  const told = env.SLUICE_LOG ?? "info";
  const level = told in pino.levels.values ? told : "info";
  const stream = pretty({
    destination: 2,
    sync: true,
    colorize: process.stderr.isTTY,
    ignore: "pid,hostname",
  });
  const to = kept
    ? pino.multistream([
        { level: "trace", stream },
        { level: "trace", stream: kept },
      ])
    : stream;
  return pino({ level, hooks: { logMethod } }, to);
}

/** Messages and reasons quote what others wrote. */
function logMethod(this: Logger, args: Parameters<LogFn>, method: LogFn): void {
  method.apply(this, args.map(visibleValue) as Parameters<LogFn>);
}

function visibleValue(value: unknown): unknown {
  if (typeof value === "string") return visibleText(value);
  if (value === null || typeof value !== "object" || value instanceof Error) return value;
  const fields = Object.entries(value);
  return Object.fromEntries(
    fields.map(([name, field]) => [name, typeof field === "string" ? visibleText(field) : field]),
  );
}
