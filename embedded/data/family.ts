import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { familyOf, OTHER_FAMILY } from "../../protocol/family.ts";
import { HostError } from "../host-error.ts";

/**
 * Throws a HostError if databases in the state of a runtime, which must not be running, have tables of another family. D1 is
 * looked at, and one object of each class, since all of a folder were written by the same code; if D1 was moved away, the objects
 * tell. Writes to none of them. One that can't be read is left to whoever opens it next, who says why.
 */
export function refuseOtherFamily(stateDir: string, folders: readonly string[]): void {
  for (const folder of folders.map((name) => join(stateDir, name)).filter((name) => existsSync(name))) {
    // Miniflare's own notes are beside the objects. One that was only asked for has no tables.
    const files = readdirSync(folder).filter(
      (name) => name.endsWith(".sqlite") && name !== "metadata.sqlite",
    );
    for (const file of files) {
      const family = familyIn(join(folder, file));
      if (family === "other") throw new HostError(`${stateDir}: ${OTHER_FAMILY}`);
      if (family === "ours") break;
    }
  }
}

function familyIn(file: string): ReturnType<typeof familyOf> {
  try {
    using database = new DatabaseSync(file, { readOnly: true });
    const names = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
    const word = () => database.prepare("SELECT word FROM family").get()?.word;
    return familyOf(
      names.map(({ name }) => String(name)),
      () => String(word()),
    );
  } catch {
    return "none";
  }
}
