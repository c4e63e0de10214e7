import type { Command } from "commander";
import { NodeList } from "../../protocol/runner.ts";
import { type ClientOptions, withClientOptions, withExamples } from "../options.ts";
import { printJson, printTable, showTime } from "../output.ts";
import { withClient } from "../with-client.ts";

/** `sluice node …` */
export function addNode(program: Command): void {
  const group = program
    .command("node")
    .summary("list the nodes that run datums")
    .helpCommand(false)
    .description("Nodes: machines on which 'sluice runner' is at work.");
  const command = group
    .command("list")
    .description("Lists the nodes that were heard of in the last day, and whether they live.")
    .action((options: ClientOptions) =>
      withClient(options, async (client) => {
        const list = await client.call(NodeList, { method: "GET", path: "/nodes" });
        if (options.json) return printJson(list);
        const rows = list.nodes.map(({ name, live, executor, capacity, seenAt }) => [
          name,
          live ? "live" : "silent",
          executor,
          String(capacity),
          showTime(seenAt),
        ]);
        printTable([["NAME", "STATE", "EXECUTOR", "CAPACITY", "LAST SEEN"], ...rows]);
      }),
    );
  withExamples(
    withClientOptions(command),
    "sluice node list",
    "sluice node list --json | jq '.nodes[].name'",
  );
}
