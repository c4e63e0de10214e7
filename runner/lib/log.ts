import type { Logger } from "pino";

/** Where the runner says what it does. */
export type Log = Pick<Logger, "debug" | "info" | "warn" | "error">;
