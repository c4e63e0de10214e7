import pino, { type Logger } from "pino";
import pretty from "pino-pretty";

/** The log of the long-running commands, for people, on stderr. `SLUICE_LOG` sets the least level: debug, info, warn, error. */
export function terminalLog(env: NodeJS.ProcessEnv): Logger {
  const level = env.SLUICE_LOG ?? "info";
  const stream = pretty({
    destination: 2,
    sync: true,
    colorize: process.stderr.isTTY,
    ignore: "pid,hostname",
  });
  return pino({ level: level in pino.levels.values ? level : "info" }, stream);
}
