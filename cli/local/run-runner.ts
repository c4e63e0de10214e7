import { startRunner, stopOnSignals } from "../../runner/main.ts";
import { ownVersion } from "../command.ts";
import { type ConnectionOptions, DEFAULT_DATA, openConnection } from "../gateway/connection/connection.ts";
import { configFolder } from "../gateway/connection/contexts.ts";
import { terminalLog } from "../output/log.ts";
import { printJson } from "../output/output.ts";
import { type RunnerTerms, runnerConfig } from "./runner-config.ts";

export interface RunnerOptions extends RunnerTerms, Omit<ConnectionOptions, "data"> {
  readonly node?: string;
  readonly data: string;
  readonly json?: true;
}

/** Runs one agent until it has ended. */
export async function runRunner({ json, context, endpoint, ...flags }: RunnerOptions): Promise<void> {
  const log = terminalLog(process.env);
  // What it lays out must be readable to the users of images; its data folder itself is open to nobody else.
  process.umask(0o022);
  const connection = openConnection({ context, endpoint });
  const { SLUICE_NODE: host, SLUICE_KEY_SECRET: keySecret } = process.env;
  // A gateway that runs here, too, keeps every key in the one folder, and the user those of others in the other.
  const hide = [...(flags.hide ?? []), DEFAULT_DATA, configFolder(process.env)];
  const config = runnerConfig({ ...flags, hide }, { ...connection, host, keySecret });
  const runner = await startRunner(config, { log, version: ownVersion() });
  stopOnSignals(runner, { log });
  if (json) printJson({ node: runner.node, endpoint: connection.endpoint });
  await runner.done;
}
