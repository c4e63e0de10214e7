import pino, { type LogFn, type Logger } from "pino";
import pretty from "pino-pretty";
import { visibleText } from "./visible.ts";

/** The log of the long-running commands, for people, on stderr. `SLUICE_LOG` sets the least level: debug, info, warn, error. */
export function terminalLog(env: NodeJS.ProcessEnv): Logger {
  const level = env.SLUICE_LOG ?? "info";
  const stream = pretty({
    destination: 2,
    sync: true,
    colorize: process.stderr.isTTY,
    ignore: "pid,hostname",
  });
  return pino({ level: level in pino.levels.values ? level : "info", hooks: { logMethod } }, stream);
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
