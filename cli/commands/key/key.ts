import type { Command } from "commander";
import { addKeyCreate } from "./create.ts";
import { addKeyDelete } from "./delete.ts";
import { addKeyExport } from "./export.ts";
import { addKeyImport } from "./import.ts";
import { addKeyList } from "./list.ts";
import { addKeyReseal } from "./reseal.ts";

/** `sluice key …` */
export function addKey(program: Command): void {
  const group = program
    .command("key")
    .summary("create, list, delete, export, import access keys, or encrypt their secrets anew")
    .helpCommand(false)
    .description(
      "Access keys: what S3 clients and sluice itself sign with. Beside the root key, which may do everything, there are those made here, each with a level and, where it is limited, its repos. Only a key of level admin that is not limited to repos handles keys.",
    );
  for (const add of [addKeyCreate, addKeyList, addKeyDelete, addKeyReseal, addKeyExport, addKeyImport])
    add(group);
}
