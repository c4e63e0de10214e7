import type { Command } from "../command.ts";
import { withSandboxTerms } from "../local/runner-config.ts";
import type { RunDatumOptions } from "../replay/run-datum.ts";

export function addDatum(program: Command): void {
  program
    .group("datum")
    .summary("run a datum of a job on this machine")
    .description("Datums: each is what one run of a pipeline's command reads.")
    .holds(addDatumRun);
}

function addDatumRun(group: Command): void {
  const command = group
    .command("run")
    .summary("Runs a datum again here, and compares what it makes")
    .description(
      "Runs a datum of a job on this machine: /pfs as the job read it, by its commits and with your own key, and the command of the version that the job had, in the same sandbox as on a node. What it leaves in /pfs/out is put into a folder and compared with what the job has of the datum, path by path. Nothing is recorded at the gateway.\n\nIn containers, if an engine answers here. If none does, --executor process must say that the command may be a process with your rights; only for the gateway that 'sluice dev' runs here it is one by itself. The pipeline's secrets come from --secrets alone.\n\nExit codes: 0 it made the same, or there is nothing to compare with; 1 it could not be run; 2 something was typed wrong, or there is no engine; 3 the command failed; 4 it made something else. With --shell it is 0 once the shell has ended.",
    )
    .argument("<job>", "the job, or how its id begins")
    .argument("<datum>", "the datum, as in 'sluice job datums'; the first digits are enough");
  withSandboxTerms(command)
    .option("--image <name>", "run it in this image, and not in that of the pipeline")
    .option("--shell", "open a shell on this terminal in place of the command")
    .option("--out <folder>", "an empty folder for what is in /pfs/out; default: a fresh one, which is named")
    .option(
      "--secrets <folder>",
      "where the pipeline's secrets are: a folder with <name>/<key> files and <name>.pipelines",
    )
    // Loaded only here: it brings what a runner consists of.
    .action(async (job: string, datum: string, options: RunDatumOptions) =>
      (await import("../replay/run-datum.ts")).runDatum(job, datum, options),
    )
    .clientOptions(
      "sluice datum run 01KAR… 3f2a",
      "sluice datum run 01KAR… 3f2a --image edges:fixed --out made",
      "sluice datum run 01KAR… 3f2a --executor process --secrets ./secrets",
      "sluice datum run 01KAR… 3f2a --shell",
    );
}
