import type { Command } from "commander";
import { useContext } from "../../gateway/connection/contexts.ts";
import { name as nameOf, withExamples, withJson } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";

/** `sluice context use` */
export function addContextUse(group: Command): void {
  const command = group
    .command("use")
    .description("Puts a context in use, in place of the one that was.")
    .argument("<name>", "as 'sluice context list' shows it", nameOf)
    .action((name: string, { json }: { json?: true }) => {
      useContext(name, process.env);
      if (json) printJson({ name });
      else printLine(`${name} is in use`);
    });
  withExamples(withJson(command), "sluice context use prod");
}
