import { type Command, InvalidArgumentError, Option } from "commander";
import { type CreateKey, KeyCreated, KeyLevel, MAX_KEY_DESCRIPTION } from "../../../protocol/keys.ts";
import { withClient } from "../../gateway/client.ts";
import { type ClientOptions, name, withClientOptions } from "../../options.ts";
import { printJson, printLine, showRepos } from "../../output/output.ts";

interface Options extends ClientOptions {
  readonly level: KeyLevel;
  readonly repo?: readonly string[];
  readonly description: string;
}

/** `sluice key create` */
export function addKeyCreate(group: Command): void {
  const command = group
    .command("create")
    .description(
      "Creates an access key and prints it. Its secret is shown now and never again.\n\nLevels, each with those before it: read lists and reads; write also writes and deletes files, and without --repo is what a runner needs; admin also creates and deletes buckets and pipelines, and without --repo handles keys.",
    )
    .addOption(
      new Option("--level <level>", "what it may do").choices(KeyLevel.options).default("read" as const),
    )
    .option("--repo <name>", "only in this repo; may be repeated", collectNames)
    .option("--description <text>", "what it is for", description, "")
    .action((options: Options) =>
      withClient(options, async (client) => {
        const wish: CreateKey = {
          level: options.level,
          repos: options.repo ? [...options.repo] : null,
          description: options.description,
        };
        const key = await client.call(KeyCreated, { method: "POST", path: "/keys", json: wish });
        if (options.json) return printJson(key);
        printLine(`export SLUICE_ACCESS_KEY_ID=${key.id}`);
        printLine(`export SLUICE_SECRET_ACCESS_KEY=${key.secret}`);
        printLine(`# ${key.level} in ${showRepos(key.repos)}; the secret is not shown again`);
      }),
    );
  withClientOptions(
    command,
    "sluice key create --level write --repo images --description 'camera upload'",
    "sluice key create --level read --repo images --repo labels",
    "sluice key create --level write --description 'runners' --json",
  );
}

function collectNames(value: string, before: readonly string[] = []): string[] {
  return [...before, name(value)];
}

function description(value: string): string {
  if (value.length <= MAX_KEY_DESCRIPTION) return value;
  throw new InvalidArgumentError(`It must be at most ${MAX_KEY_DESCRIPTION} characters long.`);
}
