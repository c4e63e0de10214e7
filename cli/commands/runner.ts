import type { Command } from "commander";
import { EXECUTORS } from "../../runner/config.ts";
import { startRunner } from "../../runner/main.ts";
import { stopOnSignals } from "../../runner/signals.ts";
import { DEFAULT_DATA, findDoor } from "../door.ts";
import { terminalLog } from "../log.ts";
import { withExamples, withJson } from "../options.ts";
import { printJson } from "../output.ts";
import { runnerConfig } from "../runner-config.ts";

interface Options {
  readonly node?: string;
  readonly executor: string;
  readonly data: string;
  readonly json?: true;
}

/** `sluice runner` */
export function addRunner(program: Command): void {
  const command = program
    .command("runner")
    .summary("run one agent, which runs the datums of pipelines on this machine")
    .description(
      "Runs one agent in the foreground. The first Ctrl-C lets it finish the datums at work, the second stops them.",
    )
    .option("--node <name>", "this node's name, unique in the cluster; default: the host's name")
    .option("--executor <name>", `how commands are run: ${EXECUTORS.join(", ")}`, "auto")
    .option("--data <folder>", "folder for the cache and the datums at work", `${DEFAULT_DATA}/runner`)
    .action(run);
  withExamples(
    withJson(command),
    "sluice runner",
    "SLUICE_ENDPOINT=https://sluice.example.org sluice runner --node edge-7",
  );
}

async function run({ json, ...flags }: Options): Promise<void> {
  const log = terminalLog(process.env);
  const door = findDoor({ dataDir: DEFAULT_DATA, env: process.env });
  const runner = await startRunner(runnerConfig(flags, door), { log });
  stopOnSignals(runner, { log });
  if (json) printJson({ node: runner.node, endpoint: door.endpoint });
  await runner.done;
}
