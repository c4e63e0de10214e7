import { CommitPage, MAX_LIST_COMMITS, Tag } from "../../../protocol/commits.ts";
import { KeyPage, MAX_LIST_KEYS } from "../../../protocol/keys.ts";
import { type BranchAddress, bucketName, isUlid, NAME_PATTERN } from "../../../protocol/names.ts";
import { JobPage } from "../../../protocol/pipelines.ts";
import { CliError, UsageError } from "../../output/failure.ts";
import { type Client, unlessRefused } from "../client.ts";
import { commitsPath, tagPath } from "../commits.ts";

/**
 * Ids as people type them: the beginning of one is enough if nothing else begins like it. The gateway takes whole ids alone,
 * so that what a script means does not change with what else there is.
 */

/** How the id of a commit or of a job may begin (https://github.com/ulid/spec). */
const PREFIX_PATTERN = /^[0-7][0-9A-HJKMNP-TV-Z]{0,24}$/i;
/** Characters of a ULID that are its time. */
const TIME_CHARACTERS = 10;

/** The whole id of a job. */
export async function jobId(client: Client, text: string): Promise<string> {
  if (isUlid(text)) return text.toUpperCase();
  if (!PREFIX_PATTERN.test(text)) throw noSuchJob(text);
  const prefix = text.toUpperCase();
  // Jobs are listed from the newest back; behind every id that begins so.
  const { jobs } = await client.get(JobPage, "/jobs", { limit: 2, after: `${prefix}~` });
  const [found, other] = jobs.filter(({ id }) => id.startsWith(prefix));
  if (!found) throw noSuchJob(text);
  if (other) throw several("jobs", { text, ids: [found.id, other.id] });
  return found.id;
}

function noSuchJob(text: string): CliError {
  return new CliError(`there is no job '${text}': 'sluice job list' shows those there are`, {
    code: "NoSuchJob",
  });
}

/** A job that a command line names: by its id, or as the newest one of a pipeline. */
export type NamedJob = { readonly id: string } | { readonly pipeline: string };

/** The whole id of the job. */
export async function jobNamed(client: Client, named: NamedJob): Promise<string> {
  if ("id" in named) {
    const { id } = named;
    if (isUlid(id) || PREFIX_PATTERN.test(id) || !NAME_PATTERN.test(id)) return await jobId(client, id);
    throw new CliError(`'${id}' is no id of a job: '--pipeline ${id}' is the newest job of that pipeline`, {
      code: "NoSuchJob",
    });
  }
  const { pipeline } = named;
  // Of a pipeline that is not there, the list of jobs is empty.
  await client.send({ method: "GET", path: `/api/v1/pipelines/${pipeline}` }).then(({ body }) => body.dump());
  const { jobs } = await client.get(JobPage, "/jobs", { limit: 1, pipeline });
  if (jobs[0]) return jobs[0].id;
  throw new CliError(`the pipeline '${pipeline}' has no job yet`, { code: "NoSuchJob" });
}

/**
 * The whole id of an access key. A text that is none of a key's that this key may see is left as it is: the gateway says
 * what is wrong with it, and the root key is in no list.
 */
export async function keyId(client: Client, text: string): Promise<string> {
  if (text === "" || text === client.connection.accessKeyId) return text;
  // Only keys that handle keys may list them.
  const [first, other] = (await unlessRefused(keysThatBegin(client, text), 403)) ?? [];
  if (first !== undefined && other !== undefined) throw several("keys", { text, ids: [first, other] });
  return first ?? text;
}

/** The whole id alone if it is one. */
async function keysThatBegin(client: Client, text: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { keys } of client.pages(KeyPage, "/keys", { limit: MAX_LIST_KEYS })) {
    const ids = keys.map(({ id }) => id);
    if (ids.includes(text)) return [text];
    found.push(...ids.filter((id) => id.startsWith(text.toUpperCase())));
  }
  return found;
}

/** The whole id of a commit of a branch, by its id or the beginning of that, or by a tag, which comes first. */
export async function commitId(client: Client, branch: BranchAddress, text: string): Promise<string> {
  if (isUlid(text)) return text.toUpperCase();
  const tagged = NAME_PATTERN.test(text)
    ? await unlessRefused(client.get(Tag, tagPath(branch, text)), "NoSuchTag")
    : undefined;
  if (tagged) return tagged.commit;
  const ids = PREFIX_PATTERN.test(text) ? await commitsThatBegin(client, branch, text.toUpperCase()) : [];
  const [found, other] = ids;
  if (found === undefined) {
    const bucket = bucketName(branch);
    throw new CliError(
      `s3://${bucket} has no commit and no tag '${text}': 'sluice commit list ${bucket}' shows its commits`,
      { code: "NoSuchCommit" },
    );
  }
  if (other !== undefined) throw several("commits", { text, ids });
  return found;
}

/** At most two. The newest commits come first, and no later one has an earlier time in its id. */
async function commitsThatBegin(client: Client, branch: BranchAddress, prefix: string): Promise<string[]> {
  const time = prefix.slice(0, TIME_CHARACTERS);
  const found: string[] = [];
  for await (const page of client.pages(CommitPage, commitsPath(branch), { limit: MAX_LIST_COMMITS })) {
    found.push(...page.commits.map(({ id }) => id).filter((id) => id.startsWith(prefix)));
    const last = page.commits.at(-1)?.id.slice(0, time.length) ?? "";
    if (last < time || found.length >= 2) break;
  }
  return found.slice(0, 2);
}

function several(what: string, { text, ids }: { text: string; ids: readonly string[] }): UsageError {
  return new UsageError(
    `the ids of several ${what} begin with '${text}', such as ${ids.join(" and ")}: give more of it`,
  );
}
