import type { Command } from "commander";
import { contextInUse, contextNames, readContext } from "../../gateway/connection/contexts.ts";
import { withExamples, withJson } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { printJson, printNote, printTable } from "../../output/output.ts";

/** `sluice context list` */
export function addContextList(group: Command): void {
  const command = group
    .command("list")
    .description("Lists the contexts, with '*' at the one in use. No secret is shown.")
    .action(({ json }: { json?: true }) => {
      const inUse = contextInUse(process.env);
      const contexts = contextNames(process.env).flatMap((name) => listed(name, inUse));
      if (json) return printJson({ contexts });
      if (contexts.length === 0) return printNote("no contexts: 'sluice context add' keeps one");
      printTable([
        ["", "NAME", "ENDPOINT", "KEY"],
        ...contexts.map(({ name, endpoint, accessKeyId, inUse }) => [
          inUse ? "*" : "",
          name,
          endpoint,
          accessKeyId,
        ]),
      ]);
    });
  withExamples(withJson(command), "sluice context list");
}

interface Listed {
  readonly name: string;
  readonly endpoint: string;
  readonly accessKeyId: string;
  readonly inUse: boolean;
}

/** One that can't be used does not keep the others from being listed. */
function listed(name: string, inUse: string | undefined): Listed[] {
  try {
    const { endpoint, accessKeyId } = readContext(name, process.env);
    return [{ name, endpoint, accessKeyId, inUse: name === inUse }];
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    printNote(error.message);
    return [];
  }
}
