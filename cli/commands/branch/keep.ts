import type { Command } from "commander";
import { BranchKeep, type Keep } from "../../../protocol/repos.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { inspectBranch } from "../../gateway/branches.ts";
import { parseBranch } from "../../gateway/commits.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, wholeNumber, withClientOptions } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { printJson, printLine } from "../../output/output.ts";

interface Options extends ClientOptions {
  readonly commits?: number;
  readonly days?: number;
  readonly all?: true;
}

/** `sluice branch keep` */
export function addBranchKeep(group: Command): void {
  const command = group
    .command("keep")
    .description(
      "Says how much of a branch's history stays, or shows it. With --commits and --days together, a commit stays while either says so. The newest commit always stays. Commits that are older answer NoSuchVersion from then on and do not come back, also if more is kept later; the space of what only they had is given back in the background.\n\nWhat a tag names, a branch was made from, an open commit began with or an input of a pipeline starts after stays for as long as that does, and so does what pipelines have not worked off. Needs the level admin.",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://")
    .option(
      "--commits <n>",
      "the newest commits stay, so many of them",
      wholeNumber({ min: 1, max: 1_000_000_000 }),
    )
    .option(
      "--days <n>",
      "a commit stays until the next one is so many days old",
      wholeNumber({ min: 1, max: 36_500 }),
    )
    .option("--all", "all of the history stays from now on, which is the default")
    .action((text: string, options: Options) => {
      const keep = keepOf(options);
      const address = parseBranch(text);
      const { repo, branch, bucket } = address;
      return withClient(options, async (client) => {
        const path = `/repos/${encodePath(repo)}/branches/${encodePath(branch)}/keep`;
        const set =
          keep === undefined
            ? { keep: (await inspectBranch(client, address)).keep ?? null }
            : await client.call(BranchKeep, { method: "PUT", path, json: { keep } });
        if (options.json) return printJson(set);
        printLine(`s3://${bucket} keeps ${showKeep(set.keep)}`);
      });
    });
  withClientOptions(
    command,
    "sluice branch keep master.images --commits 100 --days 30",
    "sluice branch keep master.images --all",
    "sluice branch keep master.images",
  );
}

/** Undefined: nothing is to be set. */
function keepOf({ commits, days, all }: Options): Keep | null | undefined {
  const isSome = commits !== undefined || days !== undefined;
  if (all && isSome) throw new UsageError("give --all alone, or --commits, --days or both");
  if (all) return null;
  if (!isSome) return undefined;
  return { ...(commits !== undefined && { commits }), ...(days !== undefined && { days }) };
}

/** Such as "the newest 100 commits". */
export function showKeep(keep: Keep | null): string {
  if (keep === null) return "all of its history";
  const { commits, days } = keep;
  const said = [
    ...(commits === undefined ? [] : [commits === 1 ? "the newest commit" : `the newest ${commits} commits`]),
    ...(days === undefined ? [] : [`what was replaced within ${days === 1 ? "a day" : `${days} days`}`]),
  ];
  return said.join(" and ");
}
