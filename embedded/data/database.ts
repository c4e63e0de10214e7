import { DatabaseSync, type DatabaseSyncOptions } from "node:sqlite";

/** Opens a database, does `work` with it, and closes it, upon which its log goes if nobody else has it open. */
export function withDatabase<T>(
  file: string | URL,
  options: DatabaseSyncOptions,
  work: (database: DatabaseSync) => T,
): T {
  const database = new DatabaseSync(file, options);
  try {
    return work(database);
  } finally {
    database.close();
  }
}
