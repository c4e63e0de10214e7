import type { Command } from "../../command.ts";
import type { DoctorOptions } from "../../doctor/run-doctor.ts";
import { DEFAULT_DATA } from "../../gateway/connection/connection.ts";
import { withRunnerTerms } from "../../local/runner-config.ts";

export function addDoctor(program: Command): void {
  const command = program
    .command("doctor")
    .summary("tell what this machine lacks to run datums")
    .description(
      "Tells what a runner that is started here with the same options and environment would have: the ways to run commands, each really tried, room for its data, and the gateway with its key. Also names background jobs of the gateway that fail, and databases of it that are almost full. Ends with 1 if something is missing that it can't do without.",
    )
    .option("--data <folder>", "the runner's data folder", `${DEFAULT_DATA}/runner`)
    // Loaded only here: the other commands should start at once.
    .action(async (options: DoctorOptions) =>
      (await import("../../doctor/run-doctor.ts")).runDoctor(options),
    );
  withRunnerTerms(command)
    .gatewayOptions()
    .jsonOption()
    .examples(
      "sluice doctor",
      "sluice doctor --executor docker --data /var/lib/sluice --cache-size 100g",
      "sluice doctor --json | jq '.findings[] | select(.state != \"ok\")'",
    );
}
