import { bucketName } from "../../../protocol/names.ts";
import { Pipeline, PipelineList } from "../../../protocol/pipelines.ts";
import type { Command } from "../../command.ts";
import type { Client } from "../../gateway/client.ts";
import { namesOf, readersOf } from "../../gateway/jobs/downstream.ts";
import { type ClientOptions, name } from "../../options.ts";
import { printJson, printLine, printNote, printTable, showTime } from "../../output/output.ts";
import { readSpecFile, type SpecFile } from "../../spec/spec-file.ts";
import { addPipelineCheck, foreseenWarnings, printCheck } from "./check.ts";
import { addPipelineDiff, addPipelineHistory, addPipelineInspect } from "./versions.ts";

export function addPipeline(program: Command): void {
  program
    .group("pipeline")
    .summary("check, create, list, inspect, update, history, diff, stop, start, delete pipelines")
    .description("Pipelines: what is to run when data lands.")
    .holds(
      addPipelineCheck,
      addPipelineCreate,
      addPipelineList,
      addPipelineInspect,
      addPipelineHistory,
      addPipelineDiff,
      addPipelineUpdate,
      addPipelineStopStart,
      addPipelineDelete,
    );
}

function addPipelineList(group: Command): void {
  group
    .command("list")
    .description("Lists all pipelines.")
    .clientAction(async (client, options: ClientOptions) => {
      const list = await client.get(PipelineList, "/pipelines");
      if (options.json) return printJson(list);
      const rows = list.pipelines.map(({ name, state, inputs, output, createdAt, description }) => [
        name,
        state,
        inputs.join(" "),
        output,
        showTime(createdAt),
        description ?? "",
      ]);
      printTable([["NAME", "STATE", "INPUTS", "OUTPUT", "CREATED", "DESCRIPTION"], ...rows]);
    })
    .clientOptions("sluice pipeline list", "sluice pipeline list --json | jq '.pipelines[].name'");
}

function addPipelineCreate(group: Command): void {
  group
    .command("create")
    .description(
      "Creates a pipeline from a spec in JSON or YAML: which of the two it is, the ending of its name says (.json, .yaml, .yml), else how it begins. Every problem that the gateway finds in it is told.",
    )
    .requiredOption("-f, --file <spec>", "file with the spec, in JSON or YAML; - reads stdin")
    .clientAction(async (client, options: ClientOptions & { readonly file: string }) => {
      const file = await readSpecFile(options.file);
      const warnings = await foreseenWarnings(client, { spec: file.spec, update: undefined });
      const pipeline = await submit(client, file);
      if (options.json) printJson(pipeline);
      else
        printLine(
          `created ${pipeline.name}; its output is s3://${pipeline.outputBranch}.${pipeline.outputRepo}`,
        );
      for (const warning of warnings) printNote(`warning: ${warning}`);
    })
    .clientOptions(
      "sluice pipeline create -f edges.json",
      "sluice pipeline create -f edges.yaml",
      "sed 's/IMAGE/edges:3/' edges.yaml | sluice pipeline create -f -",
    );
}

interface UpdateOptions extends ClientOptions {
  readonly file: string;
  readonly reprocess?: true;
  readonly plan?: true;
}

function addPipelineUpdate(group: Command): void {
  group
    .command("update")
    .description(
      "Gives a pipeline a new spec, and makes one job for it. If the transform has changed, datums run again; if only workers, tries or times have, running jobs go on. The pipeline then belongs to this key, also if nothing has changed: no job is made for that.",
    )
    .requiredOption("-f, --file <spec>", "file with the spec, in JSON or YAML; - reads stdin")
    .option("--plan", "say what it would change, how many datums would run and why, and do nothing")
    .option("--reprocess", "run every datum again, whatever has changed")
    .clientAction(async (client, options: UpdateOptions) => {
      const file = await readSpecFile(options.file);
      const { spec } = file;
      const { json, reprocess } = options;
      if (options.plan) return await printCheck(client, { spec, update: true, reprocess }, { json });
      const warnings = await foreseenWarnings(client, { spec, update: true });
      const pipeline = await submit(client, file, { update: true, reprocess });
      if (options.json) printJson(pipeline);
      else printLine(`${pipeline.name} is at version ${pipeline.version} of its spec`);
      for (const warning of warnings) printNote(`warning: ${warning}`);
    })
    .clientOptions(
      "sluice pipeline update -f edges.json",
      "sluice pipeline update -f edges.json --plan",
      "sluice pipeline update -f edges.json --reprocess",
      "sluice pipeline inspect edges --spec | sluice pipeline update -f -",
    );
}

const ACTS = {
  stop: {
    done: "stopped",
    does: "Stops a pipeline: its unfinished jobs are killed, and no commit makes one until it is started.",
  },
  start: {
    done: "started",
    does: "Starts a stopped pipeline: one job for what its inputs hold now, if they moved since its last job.",
  },
} as const;

/** `sluice pipeline stop` and `sluice pipeline start` */
function addPipelineStopStart(group: Command): void {
  for (const [act, { done, does }] of Object.entries(ACTS)) {
    group
      .command(act)
      .description(does)
      .argument("<name>", "the pipeline", name)
      .clientAction(async (client, pipelineName: string, options: ClientOptions) => {
        const pipeline = await client.post(Pipeline, `/pipelines/${pipelineName}/${act}`, {
          repeatable: true,
        });
        if (options.json) printJson(pipeline);
        else printLine(`${done} ${pipeline.name}`);
      })
      .clientOptions(`sluice pipeline ${act} edges`);
  }
}

interface DeleteOptions extends ClientOptions {
  readonly keepOutput?: true;
  readonly force?: true;
}

function addPipelineDelete(group: Command): void {
  group
    .command("delete")
    .description("Deletes a pipeline: its jobs end, and its output branch goes with it.")
    .argument("<name>", "the pipeline", name)
    .option("--keep-output", "leave the output branch, as a branch like any other")
    .option("--force", "even if another pipeline reads the output, which is then deleted under it")
    .clientAction(async (client, pipelineName: string, options: DeleteOptions) => {
      const readers = options.force && !options.keepOutput ? await outputReaders(client, pipelineName) : [];
      const { keepOutput, force } = options;
      await client.delete(`/pipelines/${pipelineName}`, { keepOutput, force });
      if (options.json) return printJson({ deleted: pipelineName });
      if (readers.length > 0) printNote(`its output was read by ${namesOf(readers)}: the input is empty now`);
      printLine(`deleted ${pipelineName}`);
    })
    .clientOptions("sluice pipeline delete edges", "sluice pipeline delete --keep-output edges");
}

/** The pipelines that are left without an input. Without --force the gateway names one and refuses. */
async function outputReaders(client: Client, name: string): Promise<PipelineList["pipelines"]> {
  const { outputRepo, outputBranch, errorsBranch } = await client.get(Pipeline, `/pipelines/${name}`);
  const branches = [outputBranch, ...(errorsBranch === undefined ? [] : [errorsBranch])];
  const readers = await Promise.all(
    branches.map((branch) => readersOf(client, bucketName({ repo: outputRepo, branch }))),
  );
  return readers.flat();
}

/**
 * Submits a specification with the text that it was read from. It goes without the text if that is too long to be kept; a note
 * on stderr then says so.
 */
export async function submit(
  client: Client,
  { spec, text }: SpecFile,
  update: { readonly update?: true; readonly reprocess?: true | undefined } = {},
): Promise<Pipeline> {
  const { specTextFault } = await import("../../../protocol/spec-text.ts");
  const fault = specTextFault(text);
  if (fault !== undefined) {
    printNote(`the text of the spec is not kept: it ${fault}`);
    return await client.post(Pipeline, "/pipelines", { query: { ...update }, json: spec });
  }
  return await client.post(Pipeline, "/pipelines", {
    query: { ...update, text: true },
    json: { spec, text },
  });
}
