import type { Command } from "commander";
import { addAdminRebuild } from "./rebuild.ts";

/** `sluice admin …` */
export function addAdmin(program: Command): void {
  const group = program
    .command("admin")
    .summary("rebuild the catalogue")
    .helpCommand(false)
    .description(
      "What the operator of a gateway does. It needs a key of level admin that is not limited to repos.",
    );
  for (const add of [addAdminRebuild]) add(group);
}
