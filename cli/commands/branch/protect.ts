import type { Command } from "commander";
import { BranchProtection, type BranchWriter } from "../../../protocol/repos.ts";
import { encodePath } from "../../../protocol/requests.ts";
import { parseBranch } from "../../gateway/commits.ts";
import { keyId } from "../../gateway/ids/ids.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, name, withClientOptions } from "../../options.ts";
import { UsageError } from "../../output/failure.ts";
import { printJson, printLine } from "../../output/output.ts";

interface Options extends ClientOptions {
  readonly pipeline?: string;
  readonly key?: string;
  readonly off?: true;
}

/** `sluice branch protect` */
export function addBranchProtect(group: Command): void {
  const command = group
    .command("protect")
    .description(
      "Lets one access key alone, or one pipeline, write to a branch, or ends that. Every other write is refused, also that of the root key: puts, deletions, commits, open commits and uploads that began before, and the deletion of the branch. A key with the level admin can always end it with --off.\n\nThe output of a pipeline is written by its jobs alone anyway; --pipeline keeps it so when the pipeline is deleted and its output stays.",
    )
    .argument("<branch>", "<branch>.<repo>, with or without s3://")
    .option("--key <id>", "only this access key may write; how its id begins is enough")
    .option("--pipeline <name>", "only this pipeline may write, whose output the branch is", name)
    .option("--off", "whoever may write in the repo may write again")
    .action((text: string, options: Options) => {
      const { repo, branch, bucket } = parseBranch(text);
      const asked = writerOf(options);
      return withClient(options, async (client) => {
        const writer = asked && "key" in asked ? { key: await keyId(client, asked.key) } : asked;
        const path = `/repos/${encodePath(repo)}/branches/${encodePath(branch)}/writer`;
        const set = await client.call(BranchProtection, { method: "PUT", path, json: { writer } });
        if (options.json) return printJson(set);
        printLine(
          set.writer === null
            ? `s3://${bucket} is not protected`
            : `s3://${bucket} is protected: only ${showWriter(set.writer)} may write to it`,
        );
      });
    });
  withClientOptions(
    command,
    "sluice branch protect master.images --key SLUICE0123456789ABCD",
    "sluice branch protect master.edges --pipeline edges",
    "sluice branch protect master.images --off",
  );
}

/** Such as "the pipeline edges". */
export function showWriter(writer: BranchWriter): string {
  return "key" in writer ? `the key ${writer.key}` : `the pipeline ${writer.pipeline}`;
}

function writerOf({ pipeline, key, off }: Options): BranchWriter | null {
  const given = [pipeline, key, off].filter((option) => option !== undefined);
  if (given.length !== 1) throw new UsageError("give one of --key, --pipeline and --off");
  if (key !== undefined) return { key };
  return pipeline === undefined ? null : { pipeline };
}
