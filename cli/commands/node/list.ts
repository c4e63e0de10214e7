import type { Command } from "commander";
import { type Node, NodeList } from "../../../protocol/runner.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printTable, showShortTime, showTime } from "../../output/output.ts";
import { shortNodeState, shortWork, showBounds, showNodeState, showWork } from "./show.ts";

/** `sluice node list` */
export function addNodeList(group: Command): void {
  const command = group
    .command("list")
    .description(
      "Lists the nodes that were heard of in the last day or are being drained: whether they live, what they have room for (--max-running and --max-workers of their runner), and what runs there.",
    )
    .action((options: ClientOptions) =>
      withClient(options, async (client) => {
        const list = await client.call(NodeList, { method: "GET", path: "/nodes" });
        if (options.json) return printJson(list);
        printTable(process.stdout.isTTY ? shortRows(list.nodes) : rows(list.nodes), { below: 1 });
      }),
    );
  withClientOptions(command, "sluice node list", "sluice node list --json | jq '.nodes[].name'");
}

function rows(nodes: readonly Node[]): string[][] {
  return [
    ["NAME", "STATE", "EXECUTOR", "CORES", "MAX RUNNING", "MAX WORKERS", "LAST SEEN", "RUNS"],
    ...nodes.map((node) => [
      ...[node.name, showNodeState(node), node.executor, String(node.capacity)],
      ...[...showBounds(node), showTime(node.seenAt), showWork(node)],
    ]),
  ];
}

/** The same for a terminal: since when a node is silent, the time says when it was last seen. */
function shortRows(nodes: readonly Node[]): string[][] {
  return [
    ["NAME", "STATE", "EXECUTOR", "CORES", "AT ONCE", "WORKERS", "LAST SEEN", "RUNS"],
    ...nodes.map((node) => [
      ...[node.name, shortNodeState(node), node.executor, String(node.capacity)],
      ...[...showBounds(node), showShortTime(node.seenAt), shortWork(node)],
    ]),
  ];
}
