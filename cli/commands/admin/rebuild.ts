import type { Command } from "commander";
import { CatalogueRebuilt } from "../../../protocol/admin.ts";
import type { Client } from "../../gateway/client.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, withClientOptions } from "../../options.ts";
import { CliError } from "../../output/failure.ts";
import { count, printJson, printLine } from "../../output/output.ts";

/** `sluice admin rebuild` */
export function addAdminRebuild(group: Command): void {
  const command = group
    .command("rebuild")
    .description(
      "Makes the catalogue (D1) from the branches and pipelines themselves: which there are, what branches are set to, their tags, the jobs of each pipeline that are listed. For a catalogue that was lost, or went back in time. With the root key, buckets are read and written all the while, whether the catalogue is there or not; lists of buckets, tags, pipelines and jobs come back with it, and public branches answer without a signature again.\n\nAll other access keys are in D1 alone and can't be rebuilt: keep them with 'sluice key export', bring them back with 'sluice key import'. Nodes come back by themselves. Drain marks are gone.",
    )
    .action((options: ClientOptions) =>
      withClient(options, async (client) => {
        const { failed, ...done } = await rebuildAll(client);
        if (options.json) printJson({ ...done, failed });
        else {
          printLine(
            `the catalogue knows of ${count(done.branches, "branch", "branches")} and ${count(done.pipelines, "pipeline")}`,
          );
          for (const name of done.missing)
            printLine(`${name} left a marker, and nothing else: it is not there`);
          printLine(
            "access keys are in D1 alone: if they are lost, 'sluice key import' brings back what 'sluice key export' kept",
          );
        }
        if (failed.length === 0) return;
        throw new CliError(`${failed.length} could not tell the catalogue of themselves: run it again`, {
          code: "NotRebuilt",
          issues: failed.map((name) => ({
            path: name,
            message: "could not be reached, or is being changed",
          })),
        });
      }),
    );
  withClientOptions(command, "sluice admin rebuild", "sluice admin rebuild --json | jq .branches");
}

async function rebuildAll(client: Client): Promise<Omit<CatalogueRebuilt, "next">> {
  const all = { branches: 0, pipelines: 0, deleted: 0, missing: [] as string[], failed: [] as string[] };
  for (let after: string | null | undefined; after !== null; ) {
    const page: CatalogueRebuilt = await client.call(CatalogueRebuilt, {
      ...{ method: "POST", path: "/admin/rebuild", query: { after }, repeatable: true },
    });
    all.branches += page.branches;
    all.pipelines += page.pipelines;
    all.deleted += page.deleted;
    all.missing.push(...page.missing);
    all.failed.push(...page.failed);
    after = page.next;
  }
  return all;
}
