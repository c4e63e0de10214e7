import type { Command } from "commander";
import { type BranchDetail, BranchEmptyOnly, BranchPublic } from "../../../protocol/repos.ts";
import { encodePath } from "../../../protocol/requests.ts";
import type { Address } from "../../gateway/address.ts";
import { inspectBranch } from "../../gateway/branches.ts";
import { parseBranch } from "../../gateway/commits.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, onOrOff, withClientOptions } from "../../options.ts";
import { printJson, printLine, showTime } from "../../output/output.ts";
import { addBranchDelete } from "../objects/rb.ts";
import { addBranchCreate } from "./create.ts";
import { addBranchKeep, showKeep } from "./keep.ts";
import { addBranchLastModified, showLastModified } from "./last-modified.ts";
import { addBranchList, showForking } from "./list.ts";
import { addBranchProtect, showWriter } from "./protect.ts";

/** `sluice branch …` */
export function addBranch(program: Command): void {
  const group = program
    .command("branch")
    .summary(
      "list, inspect, create, delete branches; make them public, protect them, say how much of their history stays, what Last-Modified is, and when S3 tools delete them",
    )
    .helpCommand(false)
    .description("Branches: each is a bucket, s3://<branch>.<repo>.");
  for (const add of [
    addBranchList,
    addBranchInspect,
    addBranchCreate,
    addBranchDelete,
    addBranchPublic,
    addBranchProtect,
    addBranchKeep,
    addBranchLastModified,
    addBranchEmptyOnly,
  ])
    add(group);
}

/** `sluice branch inspect` */
function addBranchInspect(group: Command): void {
  const command = group
    .command("inspect")
    .description(
      "Shows a branch: its newest commit, what it was made from, how much of its history stays, and its other settings.",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://")
    .action((text: string, options: ClientOptions) => {
      const address = parseBranch(text);
      return withClient(options, async (client) => {
        const detail = await inspectBranch(client, address);
        if (options.json) return printJson(detail);
        for (const line of branchLines(detail, address)) printLine(line);
      });
    });
  withClientOptions(
    command,
    "sluice branch inspect master.images",
    "sluice branch inspect master.images --json | jq .keep",
  );
}

/** A branch for people. What its gateway does not tell is left out. */
function branchLines(detail: BranchDetail, { bucket }: Pick<Address, "bucket">): string[] {
  const { createdAt, head, from, imported, forking, keep, lastModified, emptyOnly } = detail;
  const { public: isPublic, writer } = detail;
  return [
    `branch         s3://${bucket}`,
    `created        ${showTime(createdAt)}`,
    `newest commit  ${head ?? "-"}`,
    ...(from ? [`made from      s3://${from.branch}.${from.repo} at ${from.commit ?? "no commit"}`] : []),
    ...(imported
      ? [`imported       ${showTime(imported.at)}${imported.by === null ? "" : ` by ${imported.by}`}`]
      : []),
    `state          ${forking ? showForking(forking) : "ready"}`,
    ...(keep === undefined ? [] : [`keeps          ${showKeep(keep)}`]),
    ...(lastModified === undefined ? [] : [`last-modified  ${showLastModified(lastModified)}`]),
    ...(emptyOnly === undefined ? [] : [`empty-only     ${emptyOnly ? "yes" : "no"}`]),
    ...(isPublic === undefined ? [] : [`public         ${isPublic ? "yes" : "no"}`]),
    ...(writer === undefined
      ? []
      : [`written by     ${writer ? showWriter(writer) : "whoever may write in the repo"}`]),
  ];
}

/** `sluice branch empty-only` */
function addBranchEmptyOnly(group: Command): void {
  const command = group
    .command("empty-only")
    .description(
      "Sets whether S3 tools delete the bucket only while it is empty, as they do elsewhere: with 'on' their DeleteBucket answers BucketNotEmpty while the branch has a file, whatever its history has. 'sluice rb --force' and the console delete it all the same. Deleting the branch ends the setting. Needs the level admin.",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://")
    .argument("<on|off>", "whether it has to be empty", onOrOff)
    .action((text: string, emptyOnly: boolean, options: ClientOptions) => {
      const { repo, branch, bucket } = parseBranch(text);
      return withClient(options, async (client) => {
        const path = `/repos/${encodePath(repo)}/branches/${encodePath(branch)}/empty-only`;
        const set = await client.call(BranchEmptyOnly, { method: "PUT", path, json: { emptyOnly } });
        if (options.json) return printJson(set);
        printLine(
          `S3 tools delete s3://${bucket} ${set.emptyOnly ? "only while it is empty" : "with its files"}`,
        );
      });
    });
  withClientOptions(
    command,
    "sluice branch empty-only master.images on",
    "sluice branch empty-only s3://master.images off",
  );
}

/** `sluice branch public` */
function addBranchPublic(group: Command): void {
  const command = group
    .command("public")
    .description(
      "Makes a branch public, or ends that. Anybody reads and lists a public branch without a key, and its commits and tags, so also what was deleted there; but no open commits. 'off' holds at once. Deleting the branch ends it, too.\n\nBrowsers show its files in a sandbox if the gateway's own address is used. Which pages from elsewhere may read them is said by the CORS rules of the bucket ('aws s3api put-bucket-cors').",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://")
    .argument("<on|off>", "whether everybody may read it", onOrOff)
    .action((text: string, isPublic: boolean, options: ClientOptions) => {
      const { repo, branch, bucket } = parseBranch(text);
      return withClient(options, async (client) => {
        const path = `/repos/${encodePath(repo)}/branches/${encodePath(branch)}/public`;
        const set = await client.call(BranchPublic, { method: "PUT", path, json: { public: isPublic } });
        if (options.json) return printJson(set);
        printLine(
          set.public
            ? `s3://${bucket} is public: everybody may read it without a key`
            : `s3://${bucket} is not public: only keys read it`,
        );
      });
    });
  withClientOptions(
    command,
    "sluice branch public master.docs on",
    "sluice branch public s3://master.docs off",
  );
}
