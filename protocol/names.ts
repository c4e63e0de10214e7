import { z } from "zod";

/** Names of repos, branches, tags, pipelines, inputs and nodes. They have no dots, so that a bucket name splits in one way only. */
export const NAME_PATTERN = /^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/;

/** A repo, branch, pipeline, input or node name: a letter or digit, then up to 62 letters, digits, `_` or `-`. */
export const Name = z.string().regex(NAME_PATTERN, {
  error:
    "must start with a letter or digit and hold only letters, digits, '_' and '-', 63 characters at most",
});

/** The branch that a repo's name alone stands for. */
export const DEFAULT_BRANCH = "master";

/** One branch of one repo. */
export interface BranchAddress {
  readonly repo: string;
  readonly branch: string;
}

/** The S3 bucket name of a branch: `<branch>.<repo>`. */
export function bucketName({ repo, branch }: BranchAddress): string {
  return `${branch}.${repo}`;
}

/** The branch that a bucket name stands for, or undefined if the name is not `<branch>.<repo>`. */
export function parseBucketName(bucket: string): BranchAddress | undefined {
  const [branch, repo, ...rest] = bucket.split(".");
  if (branch === undefined || repo === undefined || rest.length > 0) return undefined;
  return NAME_PATTERN.test(branch) && NAME_PATTERN.test(repo) ? { repo, branch } : undefined;
}

/** What a bucket name stands for: HEAD of a branch, or with `view` something else that the branch can show. */
export interface BucketAddress extends BranchAddress {
  /**
   * The id (a ULID, in upper case) of an open commit or of a commit, or a tag. Which of the first two a ULID is, only
   * the branch knows.
   */
  readonly view?: string;
}

/** The address of a bucket that has a view. */
export type ViewAddress = Required<BucketAddress>;

/** A ULID, in any case (https://github.com/ulid/spec: Crockford's base32, 128 bits). */
const ULID_PATTERN = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/i;

/** Whether a name is a ULID: then it is the id of an open commit or of a commit, and no tag. */
export function isUlid(name: string): boolean {
  return ULID_PATTERN.test(name);
}

/** The time that a ULID begins with; milliseconds since 1970. */
export function ulidTime(id: string): number {
  let time = 0;
  for (const digit of id.slice(0, 10)) time = time * 32 + CROCKFORD.indexOf(digit);
  return time;
}
/** The digits of a ULID. */
export const CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/** The id of a session: a ULID, in upper case whatever case it came in. */
export const SessionId = z
  .string()
  .regex(ULID_PATTERN, { error: "must be the 26 letters and digits that opening the session answered" })
  .transform((id) => id.toUpperCase());

/** A name for a commit. A ULID is none, since a bucket's first name would then be the commit of that id. */
export const TagName = Name.refine((name) => !isUlid(name), {
  error: "must not be a ULID, which is how commits are named: take another name",
});

/** A commit of a branch by its id (a ULID, in upper case whatever case it came in), or by a tag. */
export const CommitName = Name.transform(viewName);

/** The S3 bucket name of a view: `<view>.<branch>.<repo>`, an id in lower case, as tools want buckets to be. */
export function viewBucket({ view, ...address }: ViewAddress): string {
  return `${isUlid(view) ? view.toLowerCase() : view}.${bucketName(address)}`;
}

/** What a bucket name of any kind stands for, or undefined if it is of none: one to three names with dots between. */
export function parseBucket(bucket: string): BucketAddress | undefined {
  return addressOfNames(bucket.split("."));
}

/** The id of an upload names its branch, so that a request that carries only the id can be routed: `<branch>.<repo>.<ulid>`. */
export function parseUploadId(id: string): BranchAddress | undefined {
  const [branch, repo, unique, ...rest] = id.split(".");
  if (!unique || rest.length > 0) return undefined;
  return parseBucketName(`${branch}.${repo}`);
}

/** First words of paths that are, or will be, the gateway's own. In a path they are no buckets without a dot. */
export const OWN_WORDS = ["api", "cdn-cgi", "console", "healthz", "metrics", "readyz"] as const;
export type OwnWord = (typeof OWN_WORDS)[number];

/** A path of the gateway's own. A word that is not among OWN_WORDS does not compile, so that no route hides a bucket. */
export function ownPath<W extends OwnWord, R extends string = "">(word: W, rest?: R): `/${W}${R}` {
  return `/${word}${rest ?? ""}` as `/${W}${R}`;
}

/** Whether a bucket of this name can't be reached in a path, because the word is the gateway's own. */
export function isOwnWord(name: string): name is OwnWord {
  return (OWN_WORDS as readonly string[]).includes(name);
}

/** Between the names in a label of a host. One label a bucket: a wildcard certificate is for one label. */
const LABEL_SEPARATOR = "--";
/** Whether a name holds what labels have between names. No new repo, branch, tag or pipeline has such a name; those that are there stay. */
export function holdsSeparator(name: string): boolean {
  return name.includes(LABEL_SEPARATOR);
}

/** What is said of such a name. */
export const SEPARATOR_FAULT = `must not hold '${LABEL_SEPARATOR}', which stands between the names of a bucket in a host's label: take another name`;

/** Of a label (RFC 1035 §2.3.4). */
const MAX_LABEL_CHARACTERS = 63;

/** What a host's first label stands for, `<repo>`, `<branch>--<repo>` or `<view>--<branch>--<repo>`; undefined if it is none of them. */
export function parseHostLabel(label: string): BucketAddress | undefined {
  if (label.length > MAX_LABEL_CHARACTERS) return undefined;
  const names = label.split(LABEL_SEPARATOR);
  return names.every(isInLabels) ? addressOfNames(names) : undefined;
}

/** The label by which a host reaches a bucket; undefined if none does. */
export function hostLabel({ repo, branch, view }: BucketAddress): string | undefined {
  const shown = view !== undefined && isUlid(view) ? view.toLowerCase() : view;
  const names =
    shown !== undefined ? [shown, branch, repo] : branch === DEFAULT_BRANCH ? [repo] : [branch, repo];
  const label = names.join(LABEL_SEPARATOR);
  return names.every(isInLabels) && label.length <= MAX_LABEL_CHARACTERS ? label : undefined;
}

/**
 * Whether a label can hold a name. Hosts have no capitals and no `_`, and a label does not end in `-`. A label that begins
 * with `xn--` is in another alphabet (RFC 5890).
 */
function isInLabels(name: string): boolean {
  return /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/.test(name) && !holdsSeparator(name) && name !== "xn";
}

/** One to three names: of the repo, before it the branch, before that the view. */
function addressOfNames(names: readonly string[]): BucketAddress | undefined {
  if (names.length > 3 || !names.every((name) => NAME_PATTERN.test(name))) return undefined;
  const [repo, branch = DEFAULT_BRANCH, view] = [...names].reverse();
  if (repo === undefined) return undefined;
  return view === undefined ? { repo, branch } : { repo, branch, view: viewName(view) };
}

/** Ids are found in any case; tags are as they were made. */
function viewName(name: string): string {
  return isUlid(name) ? name.toUpperCase() : name;
}
