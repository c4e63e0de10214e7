import type { Command } from "commander";
import { CommitDetail, MAX_LIST_MAKERS, type Maker, Provenance } from "../../../protocol/commits.ts";
import { bucketName } from "../../../protocol/names.ts";
import type { Code } from "../../../protocol/pipelines.ts";
import { type Address, showAddress } from "../../gateway/address.ts";
import { type Client, encodePath, withClient } from "../../gateway/client.ts";
import {
  commitOrHead,
  commitsPath,
  noteLines,
  parseBranchAddress,
  showChanges,
} from "../../gateway/commits.ts";
import { type PageOptions, wholeNumber, withClientOptions } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { printJson, printLine, showTime } from "../../output/output.ts";

interface Options extends PageOptions {
  readonly path?: string;
}

/** `sluice commit inspect` */
export function addCommitInspect(group: Command): void {
  const command = group
    .command("inspect")
    .description(
      "Shows a commit: its job and the commits that this read, which may be inspected in turn. Of a file, also the datums that made it: what they read, and the code that ran (the image by its digest, or that it was a process).",
    )
    .argument("<bucket>", "<branch>.<repo>, or <branch>.<repo>/<path> for a file; with or without s3://")
    .argument("[commit]", "the commit; by default the newest one")
    .option("--path <path>", "a file of the commit")
    .option(
      "--limit <number>",
      "at most so many datums",
      wholeNumber({ min: 1, max: MAX_LIST_MAKERS }),
      MAX_LIST_MAKERS,
    )
    .option("--after <place>", "go on after this place of an earlier list of datums")
    .action((text: string, commit: string | undefined, options: Options) => {
      const address = parseBranchAddress(text);
      const path = pathOf(address, options);
      return withClient(options, async (client) => {
        const id = await commitOrHead(client, address, commit);
        const at = `${commitsPath(address)}/${encodePath(id)}`;
        const detail = await client.call(CommitDetail, { method: "GET", path: at });
        const provenance = path === undefined ? undefined : await ask(client, { at, path, options });
        if (options.json) return printJson({ ...detail, ...(provenance && { provenance }) });
        printCommit(detail, address);
        if (provenance) printProvenance(provenance);
      });
    });
  withClientOptions(
    command,
    "sluice commit inspect master.edges",
    "sluice commit inspect master.edges/liberty.png",
    "sluice commit inspect master.edges 01KAR… --path liberty.png",
  );
}

function pathOf({ path }: Address, options: Options): string | undefined {
  if (options.path === undefined) return path === "" ? undefined : path;
  if (path === "") return options.path;
  throw new UsageError("name the file once: behind the bucket, or with --path");
}

function ask(
  client: Client,
  { at, path, options: { limit, after } }: { at: string; path: string; options: Options },
): Promise<Provenance> {
  const query = { path, limit, after };
  return client.call(Provenance, { method: "GET", path: `${at}/provenance`, query });
}

function printCommit(detail: CommitDetail, { bucket }: Address): void {
  printLine(`commit    ${detail.id}`);
  printLine(`branch    s3://${bucket}`);
  printLine(`parent    ${detail.parent ?? "-"}`);
  printLine(`created   ${showTime(detail.createdAt)}`);
  printLine(`files     ${showChanges(detail)}`);
  for (const line of noteLines(detail)) printLine(line);
  printLine(`job       ${jobText(detail)}`);
  for (const { name, repo, branch, commit } of detail.inputs) {
    printLine(`input     ${name}: s3://${branch}.${repo} at ${commit ?? "nothing yet"}`);
  }
}

function jobText({ job, pipeline }: CommitDetail): string {
  if (job === null) return "- (no job made it)";
  return pipeline === null ? job : `${job} of ${pipeline}`;
}

function printProvenance({ path, job, datums, next }: Provenance): void {
  printLine(`file      ${path}`);
  if (job !== null && datums.length === 0) printLine("datum     - (no datum that is known made it)");
  for (const datum of datums) {
    printLine(`datum     ${datum.id} (${ranText(datum)})`);
    if (datum.code) printLine(`  code    ${showCode(datum.code)}`);
    for (const { name, repo, branch, commit, path: read, kind } of datum.inputs) {
      const address = showAddress({ bucket: bucketName({ repo, branch }) }, read);
      const slash = kind === "dir" && read !== "" ? "/" : "";
      printLine(`  from    ${name}: ${address}${slash} at ${commit ?? "nothing yet"}`);
    }
  }
  if (next !== null) printLine(`more with --after '${next}'`);
}

/** Which code it was, in words. */
function showCode({ version, executor, image }: Code): string {
  const of = `version ${version} of the specification`;
  if (executor === "process") return `${of}, as a process of the node: the image is ignored`;
  if (image !== null) return `${of}, in ${image}`;
  return `${of}; its runner did not tell the image`;
}

function ranText({ state, job, node, exitCode }: Maker): string {
  const ran = state === "success" ? "this job ran it" : `ran in job ${job ?? "long past"}`;
  const parts = [node === null ? ran : `${ran} on ${node}`];
  if (exitCode !== null) parts.push(`exit code ${exitCode}`);
  return parts.join(", ");
}
