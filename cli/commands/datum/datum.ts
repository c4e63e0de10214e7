import type { Command } from "commander";
import { addDatumRun } from "./run.ts";

/** `sluice datum …` */
export function addDatum(program: Command): void {
  const group = program
    .command("datum")
    .summary("run a datum of a job on this machine")
    .helpCommand(false)
    .description("Datums: each is what one run of a pipeline's command reads.");
  addDatumRun(group);
}
