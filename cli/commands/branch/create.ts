import type { Command } from "commander";
import type { BranchDetail } from "../../../protocol/repos.ts";
import { type Progress, progressFor } from "../../files/progress.ts";
import type { Address } from "../../gateway/address.ts";
import { createBranch, inspectBranch } from "../../gateway/branches.ts";
import type { Client } from "../../gateway/client.ts";
import { parseBranch, parseCommitAddress } from "../../gateway/commits.ts";
import { commitId } from "../../gateway/ids/ids.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { printJson, printLine } from "../../output/output.ts";

interface CreateOptions extends ClientOptions {
  readonly from?: string;
  readonly wait: boolean;
}

/** The first pause between two looks at how far a fork is. Each is twice as long as the one before, up to the last. */
const FIRST_PAUSE_MS = 50;
const LAST_PAUSE_MS = 1000;

/** `sluice branch create` */
export function addBranchCreate(group: Command): void {
  const command = group
    .command("create")
    .description(
      "Makes a branch, and its repo if that does not exist yet. With --from it has what a commit of another branch has: names are copied and bytes are not, so it costs the same however large the files are, and from then on each branch goes its own way. It may be deleted, and so may the other one, without a loss to either. Needs admin on the new branch's repo and read on the other's. Done again with the same --from, it does the same as before.",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://")
    .option(
      "--from <branch[@commit]>",
      "<branch>.<repo> to begin with: its newest commit, or the one of this id or tag",
    )
    .option("--no-wait", "end as soon as the branch is there, before it can be read")
    .action((text: string, options: CreateOptions) => {
      const address = parseBranch(text);
      const from = options.from === undefined ? undefined : parseCommitAddress(options.from);
      return withClient(options, async (client) => {
        const commit = from?.commit && (await commitId(client, from, from.commit));
        let made = await createBranch(client, {
          address,
          from: from && { ...from, ...(commit && { commit }) },
        });
        if (options.wait && made.forking) made = await forked(client, { made, address, options });
        if (options.json) return printJson(made);
        printLine(`made s3://${address.bucket}${sourceOf(made)}`);
        if (made.forking) printLine("its files are on their way: 'sluice branch list' shows how far it is");
      });
    });
  withClientOptions(
    command,
    "sluice branch create experiment.images --from master.images",
    "sluice branch create last-week.images --from master.images@01KAR…",
    "sluice branch create hotfix.images --from master.images@v1",
    "sluice branch create drafts.texts",
  );
}

/** Waits until a fork can be read. */
async function forked(
  client: Client,
  { made, address, options }: { made: BranchDetail; address: Address; options: CreateOptions },
): Promise<BranchDetail> {
  const progress = progressFor(options, "files");
  let branch = made;
  let shown = 0;
  progress.begin(`forking ${address.bucket}`, made.forking?.total ?? 0);
  try {
    for (let pause = FIRST_PAUSE_MS; branch.forking; pause = Math.min(2 * pause, LAST_PAUSE_MS)) {
      shown = advance(progress, { shown, copied: branch.forking.copied });
      await new Promise((resolve) => setTimeout(resolve, pause));
      branch = await inspectBranch(client, address);
    }
    return branch;
  } finally {
    progress.end();
  }
}

function advance(progress: Progress, { shown, copied }: { shown: number; copied: number }): number {
  progress.advance(copied - shown);
  return copied;
}

function sourceOf({ from }: BranchDetail): string {
  if (!from) return "";
  const commit = from.commit === null ? " without commits" : ` at ${from.commit}`;
  return ` from s3://${from.branch}.${from.repo}${commit}`;
}
