import type { Command } from "commander";
import type { BranchDetail } from "../../../protocol/repos.ts";
import type { Address } from "../../gateway/address.ts";
import { inspectBranch } from "../../gateway/branches.ts";
import { parseBranch } from "../../gateway/commits.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printLine, showTime } from "../../output/output.ts";
import { showKeep } from "./keep.ts";
import { showLastModified } from "./last-modified.ts";
import { showForking } from "./list.ts";
import { showWriter } from "./protect.ts";

/** `sluice branch inspect` */
export function addBranchInspect(group: Command): void {
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
