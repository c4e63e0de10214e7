import type { Command } from "commander";
import { addContextAdd } from "./add.ts";
import { addContextList } from "./list.ts";
import { addContextRemove } from "./remove.ts";
import { addContextUse } from "./use.ts";

/** `sluice context …` */
export function addContext(program: Command): void {
  const group = program
    .command("context")
    .summary("keep the addresses and keys of several gateways by name")
    .helpCommand(false)
    .description(
      "Gateways by name, each with its key, in your configuration folder (~/.config/sluice). The one in use serves where no option, no SLUICE_ variable and no folder .sluice names a gateway.",
    );
  for (const add of [addContextAdd, addContextUse, addContextList, addContextRemove]) add(group);
}
