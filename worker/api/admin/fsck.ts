import { z } from "zod";
import { type ContentId, contentName } from "../../../protocol/content.ts";
import { jsonOf } from "../../../protocol/json.ts";
import { type BranchAddress, NAME_PATTERN } from "../../../protocol/names.ts";
import {
  FsckAsk,
  type FsckBranches,
  type FsckPiece,
  SweepAsk,
  type SweepStarted,
  type SweepState,
} from "../../../protocol/repos.ts";
import { BRANCH_MARKERS } from "../../blobs/blob-name.ts";
import { readMilestone, writeMilestone } from "../../blobs/hash/resumable-hasher.ts";
import { verifyContent } from "../../blobs/read/verify-content.ts";
import type { ContentToCheck, NamedRow } from "../../branch/contract/admin.ts";
import type { BranchApi } from "../../branch/contract/api.ts";
import { type ApiError, apiError } from "../answer/errors.ts";
import { accepted, branchError } from "../answer/failures.ts";
import { branchesOf } from "../repos/repos.ts";
import { type ApiRequest, branchInPath, readJson, readQuery } from "../request/api-request.ts";
import { invalidField } from "../request/issues.ts";

const BRANCHES = 1000;
/** What one piece reads at most, so that an answer takes seconds and not minutes. */
const PIECE_BYTES = 128 * 1024 * 1024;
const PIECE_NAMES = 20_000;
/** Most names that are told of one damaged content. */
const NAMES_TOLD = 10;

const ListQuery = z.strictObject({ after: z.string().max(256).optional() });
const SinceQuery = z.strictObject({ since: z.coerce.number().int().min(0) });

/** `GET /fsck`: every branch that ever was: of deleted ones, too, names may be read by jobs. */
export async function listForCheck(asked: ApiRequest): Promise<Response> {
  const { after } = readQuery(asked, ListQuery);
  const from = after === undefined ? undefined : BRANCH_MARKERS + after;
  const page = await asked.context.blobs.list({ prefix: BRANCH_MARKERS, after: from, limit: BRANCHES });
  const branches = page.names.flatMap((name) => addressOf(name) ?? []);
  const next = page.next?.slice(BRANCH_MARKERS.length) ?? null;
  return Response.json({ branches, next } satisfies FsckBranches);
}

function addressOf(marker: string): BranchAddress | undefined {
  const [repo = "", branch = "", ...rest] = marker.slice(BRANCH_MARKERS.length).split("/");
  const isOurs = NAME_PATTERN.test(repo) && NAME_PATTERN.test(branch) && rest.length === 0;
  return isOurs ? { repo, branch } : undefined;
}

/** Where a check is: among the names, or among the contents, perhaps in one of them. */
const Place = z.union([
  z.strictObject({ gen: z.int(), path: z.string(), born: z.int() }),
  z.strictObject({
    row: z.int(),
    within: z.strictObject({ row: z.int(), text: z.string() }).optional(),
  }),
]);
type Place = z.infer<typeof Place>;
type ContentPlace = Extract<Place, { row: number }>;

/**
 * `POST /repos/{repo}/branches/{branch}/fsck`: looks whether names have their contents, then whether contents have their
 * bytes. The caller goes on with `next` until that is null, so that no answer takes long and nothing is kept in between.
 */
export async function checkBranch(asked: ApiRequest): Promise<Response> {
  const { address, branch } = branchInPath(asked);
  const { after, sample = 1, seed = 0 } = await readJson(asked, FsckAsk);
  const place = after === undefined ? { gen: 0, path: "", born: 0 } : readPlace(after);
  const piece: Counts = { names: 0, contents: 0, bytes: 0, faults: [], done: 0 };
  const check = { asked, address, branch, sample, seed, piece };
  const next = "path" in place ? await lookUpNames(check, place) : await proveContents(check, place);
  return Response.json({ ...piece, next: next && JSON.stringify(next) } satisfies FsckPiece);
}

/** Of a branch of which its object knows nothing: if the catalogue has it, it was made, and the object was lost. */
async function lossOf(asked: ApiRequest, { repo, branch }: BranchAddress): Promise<ApiError | undefined> {
  for await (const listed of branchesOf(asked.context.catalogue, [repo])) {
    if (listed.branch !== branch) continue;
    return apiError.InternalError(
      `The catalogue has the branch '${branch}', but its object is empty: it was lost. 'sluice repo import' brings it back from an archive.`,
    );
  }
  return undefined;
}

function readPlace(text: string): Place {
  const place = Place.safeParse(jsonOf(text));
  if (place.success) return place.data;
  throw invalidField("after", "is not what an earlier piece answered as next: send that, or nothing");
}

type Counts = { -readonly [Field in keyof Omit<FsckPiece, "next">]: FsckPiece[Field] };

/** What one piece of a check is about, and what it has found so far. */
interface Check {
  readonly asked: ApiRequest;
  readonly address: BranchAddress;
  readonly branch: BranchApi;
  readonly sample: number;
  readonly seed: number;
  readonly piece: Counts;
}

/** Returns where to go on: with more names, then with the contents. */
async function lookUpNames({ asked, address, branch, piece }: Check, from: NamedRow): Promise<Place> {
  let place = from;
  do {
    const page = await branch.admin.checkNames({ after: place });
    if (!page.ok) throw (await lossOf(asked, address)) ?? branchError(page, address);
    piece.names += page.checked;
    const lacking = page.lacking.map((name) => ({ content: null, message: NO_CONTENT, names: [name] }));
    piece.faults.push(...lacking);
    if (page.next === null) return { row: 0 };
    place = page.next;
  } while (piece.names < PIECE_NAMES);
  return place;
}

const NO_CONTENT = "the branch has no row for its content";

/** Returns where to go on; null if there are no more. */
async function proveContents(check: Check, { row, within }: ContentPlace): Promise<Place | null> {
  const { address, branch, piece } = check;
  const page = accepted(await branch.admin.checkContents({ after: row }), address);
  let behind = row;
  for (const content of page.contents) {
    piece.done = behind / page.last;
    if (piece.bytes >= PIECE_BYTES) return { row: behind };
    if (isSampled(check, content)) {
      const milestone = await proveContent(check, content, within?.row === content.row ? within.text : null);
      if (milestone !== null) return { row: behind, within: { row: content.row, text: milestone } };
    }
    behind = content.row;
  }
  if (page.more) return { row: behind };
  piece.done = 1;
  return null;
}

/** Whether a content is among those that are read. Digests are as good as random; the seed makes each check choose others. */
function isSampled({ sample, seed }: Pick<Check, "sample" | "seed">, { digest }: ContentId): boolean {
  const place = (Number.parseInt(digest.slice(0, 8), 16) ^ seed) >>> 0;
  return place < sample * 2 ** 32;
}

/** Reads a content, or goes on reading it. Returns how far it came; null if it is through. */
async function proveContent(
  { asked: { context }, address, branch, piece }: Check,
  content: ContentToCheck,
  within: string | null,
): Promise<string | null> {
  const name = contentName(content);
  const from = within === null ? null : readMilestone(within, name);
  const prove = () => verifyContent(context.blobs, content, { from, mostBytes: PIECE_BYTES - piece.bytes });
  const { body, size } = content;
  const verified = await (body.kind === "inline"
    ? prove()
    : context.hold(address).during(context.blobs, body, prove));
  const done = verified.state === "more" ? verified.milestone.done : size;
  piece.bytes += Math.max(0, done - (from?.done ?? 0));
  if (verified.state === "more") return writeMilestone(verified.milestone, name);
  piece.contents++;
  if (verified.state === "damaged" && (await isStillThere(branch, content))) {
    const names = await branch.admin.namesOf({ ...content, limit: NAMES_TOLD });
    const { digest, size } = content;
    const pinnedFor = await branch.admin.forksHolding({ digest, size });
    const held = pinnedFor.length > 0 ? { pinnedFor } : {};
    piece.faults.push({ content: name, message: verified.fault, names, ...held });
  }
  return null;
}

/** What went while it was read is no fault. The same bytes that came again meanwhile are in other blobs. */
async function isStillThere(
  branch: BranchApi,
  { row, digest, size, body }: ContentToCheck,
): Promise<boolean> {
  const page = await branch.admin.checkContents({ after: row - 1 });
  const [now] = page.ok ? page.contents : [];
  return now?.digest === digest && now.size === size && JSON.stringify(now.body) === JSON.stringify(body);
}

/** `POST /repos/{repo}/branches/{branch}/sweep`: begins to look for blobs that nothing names; it goes on by itself. */
export async function startSweep(asked: ApiRequest): Promise<Response> {
  const { address, branch } = branchInPath(asked);
  const { remove } = await readJson(asked, SweepAsk);
  const { since } = accepted(await branch.admin.sweep({ remove }), address);
  return Response.json({ since } satisfies SweepStarted, { status: 202 });
}

/** `GET /repos/{repo}/branches/{branch}/sweep?since=` */
export async function sweepState(asked: ApiRequest): Promise<Response> {
  const { since } = readQuery(asked, SinceQuery);
  const { address, branch } = branchInPath(asked);
  const state = await branch.admin.sweepStatus({ since });
  const { done, seen, found, foundBytes } = accepted(state, address);
  return Response.json({ done, seen, found, foundBytes } satisfies SweepState);
}
