import { CommitDetail, MAX_LIST_MAKERS, type Maker, Provenance } from "../../../protocol/commits.ts";
import { bucketName, type ViewAddress } from "../../../protocol/names.ts";
import type { Code } from "../../../protocol/pipelines.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { type Command, withClient } from "../../command.ts";
import { type Address, openCommitIn, showAddress } from "../../gateway/address.ts";
import type { Client } from "../../gateway/client.ts";
import {
  annotationLines,
  commitsPath,
  headCommit,
  parseCommitFile,
  showChanges,
} from "../../gateway/commits.ts";
import { commitId } from "../../gateway/ids/ids.ts";
import { inspectOpenCommit } from "../../gateway/open-commits.ts";
import { type PageOptions, wholeNumber } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { count, printJson, printLine, printNote, showTime } from "../../output/output.ts";
import { showRead } from "../job/show.ts";

interface Options extends PageOptions {
  readonly path?: string;
}

export function addCommitInspect(group: Command): void {
  group
    .command("inspect")
    .description(
      "Shows a commit: its job and the commits that this read, which may be inspected in turn. Of a file, also the datums that made it: what they read, and the code that ran (the image by its digest, or that it was a process).",
    )
    .argument(
      "<bucket>",
      "<branch>.<repo>[@<commit or tag>], with /<path> behind it for a file, or the bucket of an open commit; with or without s3://",
    )
    .argument(
      "[commit]",
      "the commit, how its id begins, or a tag, if none is behind @; by default the newest one",
    )
    .option("--path <path>", "a file of the commit")
    .option(
      "--limit <number>",
      `at most so many datums, up to ${MAX_LIST_MAKERS}`,
      wholeNumber({ min: 1, max: MAX_LIST_MAKERS }),
      MAX_LIST_MAKERS,
    )
    .option("--after <place>", "go on after this place of an earlier list of datums")
    .action((text: string, commit: string | undefined, options: Options) => {
      const open = openCommitIn(text);
      if (open) return inspectOpen(open, options);
      const address = parseCommitFile(text);
      const named = oneCommit(address.commit, commit);
      const path = pathOf(address, options);
      return withClient(options, async (client) => {
        const id = named ? await commitId(client, address, named) : await headCommit(client, address);
        const at = `${commitsPath(address)}/${encodePath(id)}`;
        const detail = await client.get(CommitDetail, at);
        const provenance = path === undefined ? undefined : await ask(client, { at, path, options });
        if (options.json) return printJson({ ...detail, ...(provenance && { provenance }) });
        printCommit(detail, address);
        if (provenance) printProvenance(provenance);
      });
    })
    .clientOptions(
      "sluice commit inspect master.edges",
      "sluice commit inspect master.edges/liberty.png",
      "sluice commit inspect master.edges@v1/liberty.png",
      "sluice commit inspect s3://01kar….master.edges",
      "sluice commit inspect master.edges 01KAR… --path liberty.png",
    );
}

/** How an open commit stands. */
function inspectOpen(open: ViewAddress, options: Options): Promise<void> {
  return withClient(options, async (client) => {
    const found = await inspectOpenCommit(client, open);
    if (options.json) return printJson(found);
    printLine(`open      s3://${found.bucket}`);
    printLine(`state     ${found.state}`);
    printLine(`holds     ${count(found.operations, "path")}`);
    printLine(`opened    ${showTime(found.openedAt)}`);
    if (found.dueAt !== null) printLine(`ends      ${showTime(found.dueAt)}, unless something is added`);
    if (found.state === "finished") printLine(`commit    ${found.commit ?? "- (nothing changed)"}`);
  });
}

function oneCommit(behindAt: string | undefined, word: string | undefined): string | undefined {
  if (behindAt === undefined || word === undefined) return behindAt ?? word;
  throw new UsageError("name the commit once: behind '@', or as the second word");
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
  return client.get(Provenance, `${at}/provenance`, { path, limit, after });
}

function printCommit(detail: CommitDetail, { bucket }: Address): void {
  printLine(`commit    ${detail.id}`);
  printLine(`branch    s3://${bucket}`);
  printLine(`parent    ${detail.parent ?? "-"}`);
  printLine(`created   ${showTime(detail.createdAt)}`);
  printLine(`files     ${showChanges(detail)}`);
  for (const line of annotationLines(detail)) printLine(line);
  printLine(`job       ${jobText(detail)}`);
  for (const { name, repo, branch, ...read } of detail.inputs) {
    printLine(`input     ${name}: s3://${branch}.${repo} at ${showRead(read)}`);
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
    for (const { name, repo, branch, path, kind, ...read } of datum.inputs) {
      const address = showAddress({ bucket: bucketName({ repo, branch }) }, path);
      const slash = kind === "dir" && path !== "" ? "/" : "";
      printLine(`  from    ${name}: ${address}${slash} at ${showRead(read)}`);
    }
  }
  if (next !== null) printNote(`more with --after '${next}'`);
}

/** Which code it was, in words. */
function showCode({ version, executor, image }: Code): string {
  const of = `version ${version} of the specification`;
  if (executor === "process") return `${of}, as a process of the node: the image is ignored`;
  return `${of}, in ${image}`;
}

function ranText({ state, job, node, exitCode }: Maker): string {
  const ran = state === "success" ? "this job ran it" : `ran in job ${job ?? "long past"}`;
  const parts = [node === null ? ran : `${ran} on ${node}`];
  if (exitCode !== null) parts.push(`exit code ${exitCode}`);
  return parts.join(", ");
}
