import { closeSync, fsyncSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { InvalidArgumentError, Option } from "commander";
import type { Issue } from "../../protocol/errors.ts";
import { EXPIRY_FORMS, isExpiryText } from "../../protocol/key-expiry.ts";
import {
  KeyCreated,
  KeyLevel,
  KeyPage,
  KeysExported,
  KeysImported,
  KeysResealed,
  type KeyWish,
  MAX_KEY_DESCRIPTION,
  MAX_LIST_KEYS,
  MAX_MOVED_KEYS,
} from "../../protocol/keys.ts";
import { RepoList } from "../../protocol/repos.ts";
import { encodePath } from "../../protocol/requests.ts";
import type { Command } from "../command.ts";
import {
  type ArchiveKeys,
  archiveText,
  newArchiveKeys,
  openArchive,
  PASSPHRASE_VARIABLE,
  type SealOptions,
} from "../files/key-archive.ts";
import { allPages, type Client, GatewayError, pagesOf } from "../gateway/client.ts";
import { clientVariables, exportLines } from "../gateway/connection/connection.ts";
import { anotherName, type ClientOptions, entriesOf, moreText, type PageOptions } from "../options.ts";
import { CliError } from "../output/failure.ts";
import {
  count,
  printJson,
  printLine,
  printNote,
  printTable,
  showListTime,
  showRepos,
  showTime,
} from "../output/output.ts";

export function addKey(program: Command): void {
  program
    .group("key")
    .summary("create, list, delete, export, import access keys, or encrypt their secrets anew")
    .description(
      "Access keys: what S3 clients and sluice itself sign with. Beside the root key, which may do everything, there are those made here, each with a level and, where it is limited, its repos. Only a key of level admin that is not limited to repos handles keys.",
    )
    .holds(addKeyCreate, addKeyList, addKeyDelete, addKeyReseal, addKeyExport, addKeyImport);
}

interface Options extends ClientOptions {
  readonly level?: KeyLevel;
  readonly repo?: readonly string[];
  readonly pipelines?: true;
  readonly description?: string;
  readonly expires?: string;
}

function addKeyCreate(group: Command): void {
  group
    .command("create")
    .description(
      "Creates an access key and prints it, as the variables by which sluice, the AWS tools and rclone find it. Its secret is shown now and never again.\n\nLevels, of the first three each with those before it: read lists and reads; write also writes and deletes files; admin also creates and deletes buckets and deletes pipelines, and without --repo creates, updates and starts pipelines and handles keys. runner is apart from these: it is what a runner needs, and reads and writes only what the datums that it has leased name.\n\nA pipeline runs code on the nodes, so a key with --repo needs --pipelines to create, update and start pipelines. The pipeline and all of its inputs must be in its repos.",
    )
    .addOption(
      new Option("--level <level>", "what it may do (default: read; with --pipelines: admin)").choices(
        KeyLevel.options,
      ),
    )
    .option("--repo <name>", "only in this repo; may be repeated (default: in all)", anotherName)
    .option("--pipelines", "it may create, update and start pipelines there: for level admin")
    .option("--description <text>", "what it is for", description)
    .option(
      "--expires <when>",
      "refuse it from then on: after a length of time such as 30d, 12h or 1d12h, or at a time such as 2027-01-31T18:00Z (default: never)",
      expiry,
    )
    .clientAction(async (client, options: Options) => {
      const wish = wishOf(options);
      // Before there is a secret that a failure could lose.
      await noteAbsent(client, wish.repos ?? []);
      const key = await client.post(KeyCreated, "/keys", { json: wish });
      if (options.json) return printJson(key);
      const { endpoint } = client.connection;
      const variables = clientVariables({ endpoint, accessKeyId: key.id, secretAccessKey: key.secret });
      for (const line of exportLines(variables)) printLine(line);
      printLine(`# ${remarkOn(key, options)}; the secret is not shown again`);
    })
    .clientOptions(
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
  const { repos } = await client.get(RepoList, "/repos");
  const known = new Set(repos.map(({ name }) => name));
  for (const repo of wanted.filter((name) => !known.has(name))) {
    printNote(`Warning: there is no repo ${repo}: the key works in it once it is made`);
  }
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

const SIZES = { byDefault: 100, most: MAX_LIST_KEYS };

function addKeyList(group: Command): void {
  group
    .command("list")
    .description(
      "Lists access keys by id, without their secrets, each with the time at which it expires and the last day (of UTC) on which it was used. A key that has expired is refused, and stays in the list until it is deleted. Below a key are the sessions of the console that were begun with it. The root key is not among them.",
    )
    .clientAction(async (client, options: PageOptions) => {
      const { entries: keys, next } = await entriesOf(options, SIZES, async (query) => {
        const page = await client.get(KeyPage, "/keys", query);
        return { entries: page.keys, next: page.next };
      });
      if (options.json) return printJson({ keys, next } satisfies KeyPage);
      const rows = keys.flatMap((key) => [
        [
          key.id,
          key.level,
          showRight(key),
          showRepos(key.repos),
          showListTime(key.createdAt),
          showExpiry(key),
          key.lastUsedOn ?? "-",
          key.description,
        ],
        ...(key.sessions ?? []).map((session) => [
          ...[
            session.id,
            "session",
            "",
            "",
            showListTime(session.createdAt),
            showListTime(session.expiresAt),
          ],
          ...["-", `of ${key.id}`],
        ]),
      ]);
      const heading = ["ID", "LEVEL", "PIPELINES", "REPOS", "CREATED", "EXPIRES", "LAST USED", "DESCRIPTION"];
      printTable([heading, ...rows], { below: 1 });
      if (next !== null) printNote(moreText(options, next));
    })
    .pageOptions(SIZES, { of: "key" })
    .clientOptions("sluice key list", "sluice key list --json | jq '.keys[].id'");
}

function showExpiry({ expiresAt, expired }: KeyPage["keys"][number]): string {
  if (expiresAt === undefined) return "never";
  return expired ? "expired" : showListTime(expiresAt);
}

/** Whether it may run pipelines; nothing for a level that never may. */
function showRight({ level, pipelines }: KeyPage["keys"][number]): string {
  if (level !== "admin") return "";
  return pipelines ? "yes" : "no";
}

function addKeyDelete(group: Command): void {
  group
    .command("delete")
    .description(
      "Deletes access keys, or sessions of the console: what is signed with them is refused a few seconds later at the latest.",
    )
    .argument("<id...>", "ids of keys or sessions, as 'sluice key list' shows them")
    .clientAction(async (client, ids: readonly string[], options: ClientOptions) => {
      const { deleted, failures } = await deleteKeys(client, [...new Set(ids)]);
      if (options.json) printJson({ deleted });
      else for (const id of deleted) printLine(`deleted ${id}`);
      failUnlessAll("deleted", failures);
    })
    .clientOptions(
      "sluice key delete SLUICE0123456789ABCD",
      "sluice key delete --json SLUICE0123456789ABCD SLUICEFEDCBA98765432",
    );
}

/** Fails if some keys could not be `done` so: an issue for each. */
function failUnlessAll(done: "deleted" | "imported", issues: readonly Issue[]): void {
  if (issues.length === 0) return;
  const code = done === "deleted" ? "NotDeleted" : "NotImported";
  throw new CliError(`${count(issues.length, "key")} could not be ${done}`, { code, issues });
}

/** One that can't be deleted must not keep the others alive; what is wrong with all of them ends it. */
async function deleteKeys(
  client: Client,
  ids: readonly string[],
): Promise<{ deleted: readonly string[]; failures: readonly Issue[] }> {
  const deleted: string[] = [];
  const failures: Issue[] = [];
  for (const id of ids) {
    try {
      await client.delete(`/keys/${encodePath(id)}`);
      deleted.push(id);
    } catch (error) {
      if (!(error instanceof GatewayError) || ![400, 404].includes(error.status)) throw error;
      failures.push({ path: id, message: error.message });
    }
  }
  return { deleted, failures };
}

function addKeyReseal(group: Command): void {
  group
    .command("reseal")
    .description(
      "Encrypts the secrets of the access keys with the gateway's SLUICE_ENCRYPTION_KEY, after that was changed, and says whether SLUICE_ENCRYPTION_KEY_PREVIOUS is still needed. The keys work meanwhile. It may be run again at any time.",
    )
    .clientAction(async (client, options: ClientOptions) => {
      const { checked, resealed, unreadable } = await resealAll(client);
      if (options.json) printJson({ checked, resealed, unreadable });
      else if (unreadable.length === 0) {
        printLine(`${count(checked, "key")} checked, ${resealed.length} encrypted anew`);
        printLine("SLUICE_ENCRYPTION_KEY_PREVIOUS is not needed any more");
      }
      if (unreadable.length === 0) return;
      throw new CliError(
        `${count(unreadable.length, "key")} of ${checked} can't be opened with any encryption key that the gateway has: set SLUICE_ENCRYPTION_KEY_PREVIOUS to the one that ${unreadable.length === 1 ? "it was" : "they were"} made with, or delete ${unreadable.length === 1 ? "it" : "them"}`,
        { code: "NotResealed", issues: unreadable.map((id) => ({ path: id, message: "can't be opened" })) },
      );
    })
    .clientOptions("sluice key reseal", "sluice key reseal --json | jq .resealed");
}

async function resealAll(client: Client): Promise<Omit<KeysResealed, "next">> {
  const ask = (after: string | undefined) =>
    client.post(KeysResealed, "/keys/reseal", { query: { after }, repeatable: true });
  const pages = await allPages(pagesOf(ask));
  return {
    checked: pages.reduce((sum, { checked }) => sum + checked, 0),
    resealed: pages.flatMap(({ resealed }) => resealed),
    unreadable: pages.flatMap(({ unreadable }) => unreadable),
  };
}

/** Adds the ways to say what an export of keys is sealed with. */
export function withSealOptions(command: Command): Command {
  return command
    .option(
      "--passphrase-file <file>",
      `file with the passphrase; without it and --key-file, ${PASSPHRASE_VARIABLE} is read`,
    )
    .option("--key-file <file>", "file with the base64 of 32 random bytes, instead of a passphrase");
}

export function addKeyExport(group: Command): void {
  const command = group
    .command("export")
    .description(
      "Writes all access keys with their secrets into a file, sealed with a passphrase or a key: they are in D1 alone, and nothing else can bring them back. The gateway seals each before it answers. Keep the file and what it is sealed with apart. The root key is not among them.",
    )
    .argument("<file>", "a new file, which only you may read")
    .clientAction(async (client, file: string, options: ClientOptions & SealOptions) => {
      const seal = newArchiveKeys(options);
      // First, so that a file that is there is found before a secret is opened.
      const written = openSync(file, "wx", 0o600);
      const { keys, unreadable } = await writeTo(written, file, async () => {
        const all = await exportAll(client, seal);
        return { ...all, text: archiveText(all.keys, seal) };
      });
      if (options.json) printJson({ file, exported: keys.map(({ id }) => id), unreadable });
      else printLine(`${count(keys.length, "key")} exported to ${file}`);
      if (unreadable.length === 0) return;
      throw new CliError(
        `${count(unreadable.length, "key")} can't be opened with any encryption key that the gateway has, and ${unreadable.length === 1 ? "is" : "are"} not in the file`,
        { code: "NotExported", issues: unreadable.map((id) => ({ path: id, message: "can't be opened" })) },
      );
    });
  withSealOptions(command).clientOptions(
    "sluice key export keys.json --passphrase-file passphrase",
    "openssl rand -base64 32 > export.key && sluice key export keys.json --key-file export.key",
  );
}

/** What can't be written whole is not there. */
async function writeTo<T extends { readonly text: string }>(
  descriptor: number,
  file: string,
  load: () => Promise<T>,
): Promise<T> {
  try {
    const all = await load();
    writeSync(descriptor, all.text);
    fsyncSync(descriptor);
    return all;
  } catch (error) {
    rmSync(file, { force: true });
    throw error;
  } finally {
    closeSync(descriptor);
  }
}

async function exportAll(client: Client, { sealing }: ArchiveKeys): Promise<Omit<KeysExported, "next">> {
  const ask = (after: string | undefined) =>
    client.post(KeysExported, "/keys/export", { json: { sealWith: sealing, after }, repeatable: true });
  const pages = await allPages(pagesOf(ask));
  return {
    keys: pages.flatMap(({ keys }) => keys),
    unreadable: pages.flatMap(({ unreadable }) => unreadable),
  };
}

export function addKeyImport(group: Command): void {
  const command = group
    .command("import")
    .description(
      "Makes the access keys again that 'sluice key export' wrote, with the same ids and secrets, at the same gateway or at another one. Keys that are there stay as they are. Keys that have expired are not made, and are named. Keys that were deleted after the export work again: delete them anew.",
    )
    .argument("<file>", "what 'sluice key export' wrote")
    .clientAction(async (client, file: string, options: ClientOptions & SealOptions) => {
      const { keys, openWith } = openArchive(readFileSync(file, "utf8"), { ...options, file });
      const all: KeysImported = { added: [], there: [], taken: [], refused: [], expired: [] };
      for (let from = 0; from < keys.length; from += MAX_MOVED_KEYS) {
        const page = await client.post(KeysImported, "/keys/import", {
          json: { openWith, keys: keys.slice(from, from + MAX_MOVED_KEYS) },
          repeatable: true,
        });
        for (const what of ["added", "there", "taken", "refused", "expired"] as const)
          all[what].push(...page[what]);
      }
      if (options.json) printJson(all);
      else printLine(`${count(all.added.length, "key")} made, ${all.there.length} there already`);
      if (all.expired.length > 0) {
        const are = all.expired.length === 1 ? "has expired and was" : "have expired and were";
        printNote(`${count(all.expired.length, "key")} ${are} not made: ${all.expired.join(", ")}`);
      }
      const because = (message: string) => (path: string) => ({ path, message });
      failUnlessAll("imported", [
        ...all.taken.map(because("there is another key of this id, which stays as it is")),
        ...all.refused.map(because("says what this gateway does not know: update the gateway")),
      ]);
    });
  withSealOptions(command).clientOptions(
    "sluice key import keys.json --passphrase-file passphrase",
    "sluice key import keys.json --key-file export.key",
  );
}
