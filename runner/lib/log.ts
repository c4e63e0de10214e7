import type { Logger } from "pino";

/** The runner's own log, in which it says what it does. */
export type Log = Pick<Logger, "debug" | "info" | "warn" | "error">;

/** One of which logs can be made that name a worker in each line. */
export type ParentLog = Log & Pick<Logger, "child">;
