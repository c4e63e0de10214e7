import type { Command } from "commander";
import { removeContext } from "../../gateway/connection/contexts.ts";
import { name as nameOf, withExamples, withJson } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { printJson, printLine } from "../../output/output.ts";

/** `sluice context remove` */
export function addContextRemove(group: Command): void {
  const command = group
    .command("remove")
    .description("Removes a context. The key stays good: 'sluice key delete' ends it.")
    .argument("<name>", "as 'sluice context list' shows it", nameOf)
    .action((name: string, { json }: { json?: true }) => {
      if (!removeContext(name, process.env)) {
        throw new CliError(`there is no context ${name}: 'sluice context list' shows those there are`, {
          code: "NoSuchContext",
        });
      }
      if (json) printJson({ name });
      else printLine(`removed ${name}`);
    });
  withExamples(withJson(command), "sluice context remove prod");
}
