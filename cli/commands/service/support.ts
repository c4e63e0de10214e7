import type { Command } from "../../command.ts";
import type { SupportOptions } from "../../support/run-support.ts";

export function addSupport(program: Command): void {
  program
    .command("support")
    .summary("write all that helps to find out what is wrong into one file")
    .description(
      "Writes one file for whoever is to find out what is wrong: what 'sluice doctor' finds, versions, settings, what is under way and what it waits for, pipelines, jobs and nodes in short, and the newest lines of the gateway's log. Secrets are taken out; names of repos, files and nodes stay. README.txt in it says what it has. Also works if no gateway answers: then it has what this machine tells, and the log of the data folder that --data names.",
    )
    .option(
      "--out <file>",
      "the file to write; it must not be there yet (default: sluice-support-<time>.tar.gz)",
    )
    // Loaded only here: the other commands should start at once.
    .action(async (options: SupportOptions) =>
      (await import("../../support/run-support.ts")).runSupport(options),
    )
    .clientOptions("sluice support", "sluice support --data /srv/sluice --out /tmp/tonight.tar.gz");
}
