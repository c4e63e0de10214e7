import type { Command } from "commander";
import { addAdminRebuild } from "./rebuild.ts";
import { addAdminScrub } from "./scrub.ts";

/** `sluice admin …` */
export function addAdmin(program: Command): void {
  const group = program
    .command("admin")
    .summary("rebuild the catalogue, scrub the data folder")
    .helpCommand(false)
    .description(
      "What the operator of a gateway does. It needs a key of level admin that is not limited to repos.",
    );
  for (const add of [addAdminRebuild, addAdminScrub]) add(group);
}
