import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { HostError } from "../host-error.ts";
import { type Holder, readHolder, removeHolder, writeHolder } from "./holder.ts";

/** A data folder that this process alone uses. */
export interface DataLock {
  /** Writes down the address of the gateway, for other commands on this machine. */
  announce(endpoint: string): void;
  release(): void;
}

/**
 * Takes a data folder for this process. The lock is a file lock of the operating system, held through SQLite: it goes
 * with its process however that ends, so there are no stale locks to break and no pid to mistake for another.
 */
export function lockDataFolder(dataDir: string): DataLock {
  const database = openLock(dataDir);
  try {
    database.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
  } catch (error) {
    database.close();
    if (!isBusy(error)) throw unusable(dataDir, error);
    const holder = describe(readHolder(dataDir));
    throw new HostError(`the data folder ${dataDir} is in use by ${holder}; stop that one first`);
  }
  const announce = (endpoint: string | null): void => writeHolder(dataDir, { pid: process.pid, endpoint });
  announce(null);
  return {
    announce,
    release() {
      removeHolder(dataDir);
      database.close();
    },
  };
}

function openLock(dataDir: string): DatabaseSync {
  try {
    return new DatabaseSync(join(dataDir, "gateway.lock"));
  } catch (error) {
    throw unusable(dataDir, error);
  }
}

/** SQLite names no file. */
function unusable(dataDir: string, error: unknown): HostError {
  const why = error instanceof Error ? error.message : String(error);
  return new HostError(
    `the data folder ${dataDir} can't be used: gateway.lock in it: ${why}; this user must be able to write there`,
  );
}

function describe(holder: Holder | undefined): string {
  if (!holder) return "another gateway";
  return `the gateway with pid ${holder.pid}${holder.endpoint ? ` at ${holder.endpoint}` : ""}`;
}

// SQLITE_BUSY
function isBusy(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === 5;
}
