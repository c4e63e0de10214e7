import { setTimeout as pause } from "node:timers/promises";
import { HEARTBEAT_MS, Node, NodeList } from "../../protocol/runner.ts";
import type { Command } from "../command.ts";
import type { Client } from "../gateway/client.ts";
import { type ClientOptions, name } from "../options.ts";
import { CliError } from "../output/failure.ts";
import { count, printJson, printLine, printTable, showListTime, showTime } from "../output/output.ts";

export function addNode(program: Command): void {
  program
    .group("node")
    .summary("list, drain, resume the nodes that run datums")
    .description("Nodes: machines on which 'sluice runner' is at work.")
    .holds(addNodeList, addNodeDrain, addNodeResume);
}

function addNodeList(group: Command): void {
  group
    .command("list")
    .description(
      "Lists the nodes that were heard of in the last day or are being drained: whether they live, what they have room for (--max-running and --max-workers of their runner), and what runs there.",
    )
    .clientAction(async (client, options: ClientOptions) => {
      const list = await client.get(NodeList, "/nodes");
      if (options.json) return printJson(list);
      printTable(rows(list.nodes), { below: 1 });
    })
    .clientOptions("sluice node list", "sluice node list --json | jq '.nodes[].name'");
}

/** In short for a terminal: since when a node is silent, the time says when it was last seen. */
function rows(nodes: readonly Node[]): string[][] {
  const { isTTY } = process.stdout;
  const bounds = isTTY ? ["AT ONCE", "WORKERS"] : ["MAX RUNNING", "MAX WORKERS"];
  const [state, work] = isTTY ? [shortNodeState, shortWork] : [showNodeState, showWork];
  return [
    ["NAME", "STATE", "EXECUTOR", "CORES", ...bounds, "LAST SEEN", "RUNS"],
    ...nodes.map((node) => [
      ...[node.name, state(node), node.executor, String(node.capacity)],
      ...[...showBounds(node), showListTime(node.seenAt), work(node)],
    ]),
  ];
}

function addNodeDrain(group: Command): void {
  group
    .command("drain")
    .description(
      "Lets a node finish what runs there and gives it nothing new, until it is resumed. The mark stays when its runner is started again.",
    )
    .argument("<name>", "the node", name)
    .option("--wait", "come back when nothing runs there any more")
    .clientAction(async (client, nodeName: string, options: ClientOptions & { readonly wait?: true }) => {
      const marked = await client.post(Node, `/nodes/${nodeName}/drain`, { repeatable: true });
      const say = options.json ? () => {} : printLine;
      if (options.wait) say(`${nodeName} is being drained`);
      const node = options.wait ? await restingNode(client, { marked, say }) : marked;
      if (options.json) return printJson(node);
      if (!options.wait) return printLine(`${nodeName} is being drained`);
      printLine(node.live ? `nothing runs on ${nodeName}` : `${nodeName} does not live any more`);
    })
    .clientOptions("sluice node drain edge-7", "sluice node drain edge-7 --wait && ssh edge-7 sudo reboot");
}

/**
 * The node when it has no worker left, or lives no more. What it said before it was marked is of the past: it may have
 * been given workers since.
 */
async function restingNode(
  client: Client,
  { marked, say }: { marked: Node; say: (line: string) => void },
): Promise<Node> {
  let told = "";
  for (let node: Node = marked; ; ) {
    const isNews = node.seenAt > marked.seenAt;
    const isIdle = node.work.every(({ workers, running }) => workers === 0 && running === 0);
    if (!node.live || (isNews && isIdle)) return node;
    const work = showWork(node);
    if (work !== told && work !== "-") say(work);
    told = work;
    await pause(HEARTBEAT_MS / 2);
    const { nodes } = await client.get(NodeList, "/nodes");
    const found = nodes.find(({ name }) => name === marked.name);
    if (!found?.draining) throw new CliError(`${marked.name} was resumed by somebody`, { code: "Resumed" });
    node = found;
  }
}

function addNodeResume(group: Command): void {
  group
    .command("resume")
    .description("Lets a node that is being drained take work again.")
    .argument("<name>", "the node", name)
    .clientAction(async (client, nodeName: string, options: ClientOptions) => {
      const node = await client.post(Node, `/nodes/${nodeName}/resume`, { repeatable: true });
      if (options.json) printJson(node);
      else printLine(`${nodeName} takes work again`);
    })
    .clientOptions("sluice node resume edge-7");
}

/** A node's state in words. */
export function showNodeState({ live, draining, seenAt }: Node): string {
  const silent = live ? [] : [`silent since ${showTime(seenAt)}`];
  const states = draining ? ["draining", ...silent] : silent;
  return states.length === 0 ? "live" : states.join(", ");
}

/** The same without since when. */
export function shortNodeState({ live, draining }: Node): string {
  const states = [...(draining ? ["draining"] : []), ...(live ? [] : ["silent"])];
  return states.length === 0 ? "live" : states.join(", ");
}

/** How many commands run on a node at most, and how many workers it has. "-": it has not said so. */
export function showBounds({ bounds }: Node): [running: string, workers: string] {
  return bounds ? [String(bounds.running), String(bounds.workers)] : ["-", "-"];
}

/** What runs on a node, in words. "-" for a silent node: nothing is known of it. */
export function showWork({ live, work }: Node): string {
  if (!live || work.length === 0) return "-";
  return work
    .map(
      ({ pipeline, workers, running, trouble }) =>
        `${pipeline}: ${count(running, "datum")} in ${count(workers, "worker")}${trouble === undefined ? "" : `, in trouble: ${trouble}`}`,
    )
    .join("; ");
}

/** The pipelines of which something runs on a node, or that are in trouble there, and how many workers wait for work. */
export function shortWork({ live, work }: Node): string {
  if (!live) return "";
  const idle = work.reduce((sum, { workers, running }) => sum + Math.max(0, workers - running), 0);
  const busy = work
    .filter(({ running, trouble }) => running > 0 || trouble !== undefined)
    .map(
      ({ pipeline, running, trouble }) =>
        `${pipeline}: ${count(running, "datum")}${trouble === undefined ? "" : `, in trouble: ${trouble}`}`,
    );
  return [...busy, ...(idle > 0 ? [count(idle, "idle worker")] : [])].join("; ");
}
