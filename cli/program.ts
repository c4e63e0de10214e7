import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import { addBranch } from "./commands/branch/list.ts";
import { addCommit } from "./commands/commit/commit.ts";
import { addJob } from "./commands/job/job.ts";
import { addKey } from "./commands/key/key.ts";
import { addNode } from "./commands/node/node.ts";
import { addCat } from "./commands/objects/cat.ts";
import { addCp } from "./commands/objects/cp.ts";
import { addLs } from "./commands/objects/ls.ts";
import { addMb } from "./commands/objects/mb.ts";
import { addRb } from "./commands/objects/rb.ts";
import { addRm } from "./commands/objects/rm.ts";
import { addPipeline } from "./commands/pipeline/pipeline.ts";
import { addRepo } from "./commands/repo/list.ts";
import { addDev } from "./commands/service/dev.ts";
import { addDoctor } from "./commands/service/doctor.ts";
import { addEnv } from "./commands/service/env.ts";
import { addRunner } from "./commands/service/runner.ts";
import { withExamples } from "./options.ts";

const PACKAGE = join(import.meta.dirname, "../package.json");

/** Prints help: to `out` if a user asked for it, to `err` if a group was called without a command. */
export interface HelpOutput {
  out(text: string): void;
  err(text: string): void;
}

/** The whole command line. Failures are thrown, not printed: main reports them. */
export function buildProgram({ out, err }: HelpOutput): Command {
  const { version } = JSON.parse(readFileSync(PACKAGE, "utf8")) as { version: string };
  const program = new Command("sluice")
    .description("Versioned object storage that speaks S3, and pipelines that run when data lands.")
    .version(version)
    .exitOverride()
    .configureOutput({ writeOut: out, writeErr: err, outputError: () => {} })
    .helpCommand(false);
  withExamples(
    program,
    "sluice dev",
    "sluice mb s3://master.images",
    "sluice cp -r photos s3://master.images/",
    "sluice pipeline create -f edges.json",
    "sluice job list --pipeline edges",
  ).addHelpText(
    "after",
    "\nWhere the gateway is, is read from SLUICE_ENDPOINT, SLUICE_ACCESS_KEY_ID and SLUICE_SECRET_ACCESS_KEY\n(else from the AWS_ names, else from the data folder of a gateway on this machine).",
  );
  for (const add of [
    addDev,
    addRunner,
    addEnv,
    addDoctor,
    addPipeline,
    addJob,
    addCommit,
    addRepo,
    addBranch,
    addNode,
    addKey,
    addMb,
    addRb,
    addLs,
    addCp,
    addCat,
    addRm,
  ]) {
    add(program);
  }
  return program;
}
