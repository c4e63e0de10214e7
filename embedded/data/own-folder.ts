import { chmodSync, mkdirSync } from "node:fs";

const OWNER_ONLY = 0o700;

/** Makes a folder of ours. Nobody else may look into it, also if the folder that the user named was there and is open to others. */
export function makeOwnFolder(path: string): void {
  mkdirSync(path, { recursive: true, mode: OWNER_ONLY });
  chmodSync(path, OWNER_ONLY);
}
