import type { Command } from "../../command.ts";
import { DEFAULT_DATA } from "../../gateway/connection/connection.ts";
import type { RunnerOptions } from "../../local/run-runner.ts";
import { withRunnerTerms } from "../../local/runner-config.ts";

export function addRunner(program: Command): void {
  const command = program
    .command("runner")
    .summary("run the datums of pipelines on this machine, as one node of a gateway")
    .description(
      "Runs the datums of pipelines in the foreground, as one node of a gateway. Commands run in containers: if no container engine answers at the start, it ends with 2, unless --executor process says that commands may be processes with the rights of this user, or --wait-for-engine to wait for one. An engine that goes away later is waited for. The first Ctrl-C lets it finish the datums at work, the second stops them.\n\nSLUICE_ENDPOINT says where the gateway is. SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY hold a key of level runner, as 'sluice key create --level runner' makes it.\n\nA secret says which pipelines it serves, in the file <name>.pipelines beside its folder or in the annotation sluice/pipelines. SLUICE_KEY_SECRET names the secret that the runner's own key comes from, if it comes from one: no pipeline gets that.",
    )
    .option(
      "--node <name>",
      "this node's name, unique among the nodes of the gateway (default: SLUICE_NODE, else the host's name)",
    )
    .option("--data <folder>", "folder for the cache and the datums at work", `${DEFAULT_DATA}/runner`)
    // Loaded only here: the other commands should start at once.
    .action(async (options: RunnerOptions) => (await import("../../local/run-runner.ts")).runRunner(options));
  withRunnerTerms(command)
    .gatewayOptions()
    .jsonOption()
    .examples(
      "sluice runner --executor docker",
      "SLUICE_ENDPOINT=https://sluice.example.org sluice runner --executor process --node edge-7",
      "sluice runner --executor process --secrets kubernetes:production --hide /srv/ledger",
      "sluice runner --executor docker --network none --memory 4g --cpus 2 --cache-size 100g",
    );
}
