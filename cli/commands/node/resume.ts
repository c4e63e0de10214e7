import type { Command } from "commander";
import { Node } from "../../../protocol/runner.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, name, withClientOptions } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";

/** `sluice node resume` */
export function addNodeResume(group: Command): void {
  const command = group
    .command("resume")
    .description("Lets a node that is being drained take work again.")
    .argument("<name>", "the node", name)
    .action((nodeName: string, options: ClientOptions) =>
      withClient(options, async (client) => {
        const path = `/nodes/${nodeName}/resume`;
        const node = await client.call(Node, { method: "POST", path, repeatable: true });
        if (options.json) printJson(node);
        else printLine(`${nodeName} takes work again`);
      }),
    );
  withClientOptions(command, "sluice node resume edge-7");
}
