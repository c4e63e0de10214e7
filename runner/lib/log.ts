import type { Logger } from "pino";

/** The runner's own log, in which it says what it does. */
export type Log = Pick<Logger, "debug" | "info" | "warn" | "error" | "child">;
