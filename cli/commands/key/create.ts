import { type Command, InvalidArgumentError, Option } from "commander";
import { EXPIRY_FORMS, isExpiryText } from "../../../protocol/key-expiry.ts";
import { KeyCreated, KeyLevel, type KeyWish, MAX_KEY_DESCRIPTION } from "../../../protocol/keys.ts";
import { RepoList } from "../../../protocol/repos.ts";
import type { Client } from "../../gateway/client.ts";
import { clientVariables, exportLines } from "../../gateway/connection/client-variables.ts";
import { withClient } from "../../gateway/with-client.ts";
import { type ClientOptions, name, withClientOptions } from "../../options.ts";
import { printJson, printLine, printNote, showRepos, showTime } from "../../output/output.ts";

interface Options extends ClientOptions {
  readonly level?: KeyLevel;
  readonly repo?: readonly string[];
  readonly pipelines?: true;
  readonly description?: string;
  readonly expires?: string;
}

/** `sluice key create` */
export function addKeyCreate(group: Command): void {
  const command = group
    .command("create")
    .description(
      "Creates an access key and prints it, as the variables by which sluice, the AWS tools and rclone find it. Its secret is shown now and never again.\n\nLevels, of the first three each with those before it: read lists and reads; write also writes and deletes files; admin also creates and deletes buckets and deletes pipelines, and without --repo creates, updates and starts pipelines and handles keys. runner is apart from these: it is what a runner needs, and reads and writes only what the datums that it has leased name.\n\nA pipeline runs code on the nodes, so a key with --repo needs --pipelines to create, update and start pipelines. The pipeline and all of its inputs must be in its repos.",
    )
    .addOption(
      new Option("--level <level>", "what it may do (default: read; with --pipelines: admin)").choices(
        KeyLevel.options,
      ),
    )
    .option("--repo <name>", "only in this repo; may be repeated (default: in all)", collectNames)
    .option("--pipelines", "it may create, update and start pipelines there: for level admin")
    .option("--description <text>", "what it is for", description)
    .option(
      "--expires <when>",
      "refuse it from then on: after a length of time such as 30d, 12h or 1d12h, or at a time such as 2027-01-31T18:00Z (default: never)",
      expiry,
    )
    .action((options: Options) =>
      withClient(options, async (client) => {
        const wish = wishOf(options);
        // Before there is a secret that a failure could lose.
        await noteAbsent(client, wish.repos ?? []);
        const key = await client.call(KeyCreated, { method: "POST", path: "/keys", json: wish });
        if (options.json) return printJson(key);
        const variables = clientVariables({
          endpoint: client.connection.endpoint,
          accessKeyId: key.id,
          secretAccessKey: key.secret,
        });
        for (const line of exportLines(variables)) printLine(line);
        printLine(`# ${remarkOn(key, options)}; the secret is not shown again`);
      }),
    );
  withClientOptions(
    command,
    "sluice key create --level write --repo images --description 'camera upload'",
    "sluice key create --level write --repo images --expires 30d --description 'for a colleague'",
    'eval "$(sluice key create --level read --repo images)"',
    "sluice key create --level read --repo images --repo labels",
    "sluice key create --level admin --repo images --repo edges --pipelines",
    "sluice key create --level runner --description 'runners' --json",
  );
}

function wishOf({ level, pipelines, repo, expires, description = "" }: Options): KeyWish {
  return {
    level: level ?? (pipelines ? "admin" : "read"),
    repos: repo ? [...repo] : null,
    // A gateway of before these does not know the fields.
    ...(pipelines && { pipelines: true }),
    ...(expires !== undefined && { expires }),
    description,
  };
}

function remarkOn({ level, repos, expiresAt }: KeyCreated, { pipelines }: Options): string {
  const runs = pipelines ? ", may run pipelines" : "";
  const until = expiresAt === undefined ? "" : `, until ${showTime(expiresAt)}`;
  return `${level} in ${showRepos(repos)}${runs}${until}`;
}

/** A key may be made before its repo is. More often the name is misspelled. */
async function noteAbsent(client: Client, wanted: readonly string[]): Promise<void> {
  if (wanted.length === 0) return;
  const { repos } = await client.call(RepoList, { method: "GET", path: "/repos" });
  const known = new Set(repos.map(({ name }) => name));
  for (const repo of wanted.filter((name) => !known.has(name))) {
    printNote(`Warning: there is no repo ${repo}: the key works in it once it is made`);
  }
}

function collectNames(value: string, before: readonly string[] = []): string[] {
  return [...before, name(value)];
}

/** Whether it lies ahead, the gateway says: its clock counts. */
function expiry(value: string): string {
  if (isExpiryText(value)) return value;
  throw new InvalidArgumentError(`It must be ${EXPIRY_FORMS}.`);
}

function description(value: string): string {
  if (value.length <= MAX_KEY_DESCRIPTION) return value;
  throw new InvalidArgumentError(`It must be at most ${MAX_KEY_DESCRIPTION} characters long.`);
}
