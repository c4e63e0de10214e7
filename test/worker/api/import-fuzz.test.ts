// @module-tag rest
import { expect, test } from "vitest";
import { ExportBegun, ExportedCommits, ExportedFiles, ExportedTags } from "../../../protocol/archives.ts";
import { CommitPage, DiffPage, TagPage } from "../../../protocol/commits.ts";
import { FilePage } from "../../../protocol/files.ts";
import { BranchDetail, FsckPiece } from "../../../protocol/repos.ts";
import type { Archive } from "../../support/archive-cases.ts";
import { seededRandom } from "../../support/random.ts";
import { good as goodS3, s3 } from "../s3/support.ts";
import { importArchive } from "./import-support.ts";
import { api, commitFiles, good, makeBranch } from "./support.ts";

const ROUNDS = 120;

/** A branch with replaced, deleted and erased files, directories, annotations, metadata, parts and tags, as its archive has it. */
async function goodArchive(): Promise<Archive> {
  const address = { repo: "fuzz-source", branch: "master" };
  await makeBranch(address);
  const bucket = "/master.fuzz-source";
  await commitFiles(address, { "a/b": "1", "a-c": "2", deep: "x" });
  const headers = {
    "x-amz-meta-n": "1",
    "content-type": "text/x",
    "x-sluice-commit-message": "said",
    "x-sluice-commit-meta-k": "v",
  };
  await goodS3(`PUT ${bucket}/a/b`, { headers, body: "3" });
  await goodS3(`PUT ${bucket}/secret`, { body: "secret" });
  await good("POST /repos/fuzz-source/branches/master/erasures", { body: { path: "secret" } });
  await goodS3(`DELETE ${bucket}/deep`);
  await commitFiles(address, { "deep/below": "4", "deep/more": "5" });
  await good("PUT /repos/fuzz-source/branches/master/tags/v1", { body: {} });
  await commitFiles(address, { last: "6" });
  return await exportOf("fuzz-source");
}

async function exportOf(repo: string): Promise<Archive> {
  const path = `/repos/${repo}/branches/master/exports`;
  const begun = ExportBegun.parse(await good(`POST ${path}`));
  const { name: _, ...branch } = begun.branch;
  const page = (rest: string) => good(`GET ${path}/${begun.export}/${rest}`);
  const { commits } = ExportedCommits.parse(await page("commits?after=0"));
  const { tags } = ExportedTags.parse(await page("tags?after="));
  const { files, contents } = ExportedFiles.parse(await page("files?after=&born=0"));
  return structuredClone({ branch, commits, tags, files, contents });
}

/** Whatever anybody does with a branch: none of it may be the gateway's fault. */
async function exercise(repo: string): Promise<void> {
  const path = `/repos/${repo}/branches/master`;
  BranchDetail.parse(await good(`GET ${path}`));
  const { commits } = CommitPage.parse(await good(`GET ${path}/commits?limit=100`));
  TagPage.parse(await good(`GET /repos/${repo}/tags`));
  for (const { id, parent } of commits) {
    FilePage.parse(await good(`GET ${path}/commits/${id}/files`));
    const diff = await api(`GET ${path}/commits/${id}/diff`);
    // The parent may be kept no more.
    if (diff.status === 404 && parent !== null) await diff.text();
    else DiffPage.parse(await diff.json());
  }
  const bucket = `/master.${repo}`;
  const listed = await (await goodS3(`GET ${bucket}?list-type=2&encoding-type=url`)).text();
  for (const [, key = ""] of listed.matchAll(/<Key>([^<]*)<\/Key>/g)) {
    const target = `${bucket}/${key}`;
    const got = await s3(`GET ${target}`);
    await got.arrayBuffer();
    const attributes = await s3(`GET ${target}?attributes`, {
      headers: { "x-amz-object-attributes": "ETag,Checksum,ObjectParts,StorageClass,ObjectSize" },
    });
    await attributes.text();
    expect([key, got.status, attributes.status < 500]).toEqual([key, 200, true]);
  }
  await goodS3(`GET ${bucket}?versions`).then((answer) => answer.text());
  await goodS3(`GET ${bucket}?list-type=2&delimiter=/`).then((answer) => answer.text());
  await goodS3(`PUT ${bucket}/written-after`, { body: "after" });
  await commitFiles({ repo, branch: "master" }, { "also-after": "after" });
  const checked = FsckPiece.parse(await good(`POST ${path}/fsck`, { body: {} }));
  expect(checked.faults).toEqual([]);
  await exportOf(repo);
}

type Holder = unknown[] | Record<string, unknown>;

/** Every value in a value, by what holds it. */
function* placesIn(value: unknown): Generator<readonly [Holder, string | number]> {
  if (typeof value !== "object" || value === null) return;
  const holder = value as Holder;
  for (const key of Array.isArray(holder) ? holder.keys() : Object.keys(holder)) {
    yield [holder, key];
    yield* placesIn(Reflect.get(holder, key));
  }
}

/** One value of it becomes another one, goes, or trades places with another. */
function mutate(archive: Archive, random: () => number): string {
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
  const places = Object.values(archive).flatMap((part) => [...placesIn(part)]);
  const [holder, key] = pick(places);
  const held: unknown = Reflect.get(holder, key);
  const [other, otherKey] = pick(places);
  const values: unknown[] = [
    ...[
      null,
      "",
      0,
      -1,
      1,
      2,
      3,
      1.5,
      2 ** 48,
      2 ** 53 - 1,
      1e300,
      true,
      [],
      {},
      "a/b",
      "a",
      "\ud800",
      "\u0000",
    ],
    ...[
      "{}",
      "[]",
      '{"message":1}',
      '{"parts":{"sizes":[[1,1]]}}',
      "x".repeat(2000),
      "7ZZZZZZZZZZZZZZZZZZZZZZZZZ",
    ],
    ...(typeof held === "number" ? [held + 1, held - 1, held * 2] : []),
    ...(typeof held === "string" ? [`${held}x`, held.slice(1), held.toLowerCase(), `${held}/b`] : []),
    structuredClone(Reflect.get(other, otherKey)),
  ];
  if (Array.isArray(holder) && random() < 0.2) {
    holder.splice(Number(key), 1);
    return `without ${key}`;
  }
  // Of its own kind, it may well be taken.
  const alike = places.filter(([at, name]) => typeof Reflect.get(at, name) === typeof held);
  const [like, likeKey] = pick(alike);
  const value: unknown = random() < 0.6 ? structuredClone(Reflect.get(like, likeKey)) : pick(values);
  Reflect.set(holder, key, value);
  return `${key}: ${JSON.stringify(value)?.slice(0, 60)}`;
}

test("an archive with anything changed is refused in words, or is a branch on which everything works", async () => {
  const whole = await goodArchive();
  const random = seededRandom(1);
  let taken = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const archive = structuredClone(whole);
    const changes = Array.from({ length: 1 + Math.floor(random() * 2) }, () => mutate(archive, random));
    const repo = `fuzz-${round}`;
    const outcome = await importArchive({ repo }, archive, { pageRows: 1 + Math.floor(random() * 5) });
    if (outcome.ok) {
      taken++;
      await exercise(repo).catch((error: unknown) => {
        throw new Error(`round ${round}, ${changes.join("; ")}: ${error}`, { cause: error });
      });
    } else {
      const { status, message } = outcome;
      expect([status, message], `round ${round}, ${changes.join("; ")}`).toEqual([
        expect.toSatisfy((code: number) => code >= 400 && code < 500),
        expect.stringMatching(/\w{3}/),
      ]);
    }
  }
  expect(taken).toBeGreaterThan(ROUNDS / 25);
  expect(taken).toBeLessThan(ROUNDS);
});
