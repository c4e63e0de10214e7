// @module-tag rest
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type DevServer, sluiceOk, startDevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { objectTarget, S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";
import { selfDescribing } from "../../support/self-describing.ts";
import { letTimePass, overdue, storedState } from "../../support/stored-state.ts";

/** `npm run test:forks` has 2,000, and six rounds. */
const PUTS = Number(process.env.SLUICE_FORK_PUTS ?? 120);
const ROUNDS = Number(process.env.SLUICE_FORK_ROUNDS ?? 1);
/** Versions that one request erases: more than an erasure takes out of its tables itself. */
const ERASED_AT_ONCE = 60;
/** Requests at the same time, beside an erasure. */
const WRITERS = 8;
/** More than what fits a row: the bytes are in a blob. */
const SIZE = 5000;
/** Longer than readers have with blobs that nothing names any more. */
const GRACE_MS = 5 * 60_000;
/** More times than what is given back waits, in one branch and the other. */
const MOST_WAITS = 8;

let server: DevServer;
let s3: S3;
beforeEach(async () => {
  server = await startDevServer();
  s3 = new S3(server);
});
afterEach(() => server?.stop());

interface OnLoan {
  readonly parent: string;
  readonly fork: string;
  readonly contents: readonly Buffer[];
  /** The version that each of the fork's copies has. */
  readonly copied: string;
}

const nameOf = (n: number): string => `${n}`.padStart(5, "0");
const numbers = Array.from({ length: PUTS }, (_, n) => n);

/** A branch that has erased its files, and a fork of it that has copies of them all: holds of the fork alone keep the bytes. */
async function onLoan(repo: string): Promise<OnLoan> {
  const [parent, fork] = [`master.${repo}`, `fork.${repo}`];
  const contents = numbers.map((nonce) => selfDescribing({ key: repo, nonce, size: SIZE }));
  const folder = scratchFolder();
  mkdirSync(join(folder, "files"));
  for (const [n, bytes] of contents.entries()) writeFileSync(join(folder, "files", nameOf(n)), bytes);
  await s3.createBucket(parent);
  await sluiceOk(server, "cp", "-r", `${folder}/files/`, `s3://${parent}/files/`);
  removeScratch(folder);
  const written = await s3.headCommit(parent);
  await sluiceOk(server, "branch", "create", fork, "--from", parent);
  const first = await s3.headCommit(fork);
  await sluiceOk(server, "cp", "-r", `s3://${fork}/files/`, `s3://${fork}/copies/`);
  const copied = await s3.headCommit(fork);
  for (const [bucket, version] of [
    [fork, first],
    [parent, written],
  ] as const) {
    await inPieces(ERASED_AT_ONCE, (some) => erase(bucket, { folder: "files", some, version }));
  }
  return { parent, fork, contents, copied };
}

async function inPieces(size: number, work: (some: readonly number[]) => Promise<unknown>): Promise<void> {
  for (let from = 0; from < PUTS; from += size) await work(numbers.slice(from, from + size));
}

interface Erasing {
  readonly folder: string;
  readonly some: readonly number[];
  readonly version: string;
}

/** Erases versions for good, in one request. */
async function erase(bucket: string, { folder, some, version }: Erasing): Promise<void> {
  const objects = some.map(
    (n) => `<Object><Key>${folder}/${nameOf(n)}</Key><VersionId>${version}</VersionId></Object>`,
  );
  const answer = await s3.ask("POST", `/${bucket}?delete`, `<Delete>${objects.join("")}</Delete>`);
  if (answer.status !== 200 || answer.text.includes("<Error>")) {
    throw new Error(`${bucket}: ${answer.status} ${answer.text.slice(0, 500)}`);
  }
}

/** So many at a time. */
async function each(some: readonly number[], work: (n: number) => Promise<void>): Promise<void> {
  const left = [...some];
  const writer = async () => {
    for (let n = left.shift(); n !== undefined; n = left.shift()) await work(n);
  };
  await Promise.all(Array.from({ length: WRITERS }, writer));
}

/** Time passes, and whatever waits for it is done. */
async function passTime(ms: number): Promise<void> {
  await server.kill9();
  // What was killed may hold a file for another moment.
  await eventually("the files are free", () => {
    letTimePass(server.data, ms);
    return true;
  });
  await server.restart();
  await eventually("nothing is due any more", () => {
    const left = overdue(server.data);
    if (left.length > 0) throw new Error(left.join(", "));
    return true;
  });
}

/** Those that do not read as they were written. */
async function lostOf({ fork, contents }: OnLoan, folder: string, some = numbers): Promise<string[]> {
  const lost: string[] = [];
  await each(some, async (n) => {
    const { status, body } = await s3.ask("GET", objectTarget(fork, `${folder}/${nameOf(n)}`));
    if (status !== 200 || !contents[n]?.equals(body)) lost.push(`${folder}/${nameOf(n)}: ${status}`);
  });
  return lost;
}

/** Time passes until branches name so many blobs, and no others are there. */
async function expectLeft(named: number): Promise<void> {
  const wanted = { missing: [], orphans: [], named, condemned: 0 };
  for (let time = 0; time < MOST_WAITS; time++) {
    await passTime(GRACE_MS);
    if (isDeepStrictEqual(storedState(server.data), wanted)) return;
  }
  expect(storedState(server.data)).toEqual(wanted);
}

test(`${PUTS} PUTs beside erasures in a fork of a pinned parent, ${ROUNDS} times, lose nothing and leave nothing`, {
  timeout: 120_000 + ROUNDS * PUTS * 200,
}, async () => {
  const lost: string[][] = [];
  for (let round = 1; round <= ROUNDS; round++) {
    const world = await onLoan(`round-${round}`);
    const { fork, contents, copied } = world;
    const put = async (n: number): Promise<void> => {
      await s3.put(fork, `again/${nameOf(n)}`, contents[n] ?? "");
    };
    await inPieces(ERASED_AT_ONCE, async (some) => {
      await Promise.all([
        erase(fork, { folder: "copies", some, version: copied }),
        // The last ones first: an erasure takes out the first ones itself.
        each([...some].reverse(), put),
      ]);
    });
    await passTime(GRACE_MS);
    lost.push(await lostOf(world, "again"));
  }
  console.log(`lost in each round: ${lost.map((some) => some.length).join(", ")} of ${PUTS}`);
  expect(lost.flat()).toEqual([]);
  expect(storedState(server.data)).toMatchObject({ missing: [], orphans: [] });
  for (let round = 1; round <= ROUNDS; round++) {
    await sluiceOk(server, "branch", "keep", `fork.round-${round}`, "--commits", "1");
    await sluiceOk(server, "rm", "-r", `s3://fork.round-${round}/again/`);
  }
  await expectLeft(0);
});

test("what a fork of a pinned parent loses by deletion and retention goes from both, and what it keeps stays", {
  timeout: 120_000 + PUTS * 200,
}, async () => {
  const world = await onLoan("retention");
  const { fork, parent } = world;
  const [kept, gone] = [numbers.filter((n) => n % 2 === 0), numbers.filter((n) => n % 2 === 1)];
  await each(gone, (n) => s3.delete(fork, `copies/${nameOf(n)}`));
  await sluiceOk(server, "branch", "keep", fork, "--commits", "1");
  // Both name the same blobs: those that stay for the fork.
  await expectLeft(kept.length);
  expect(await lostOf(world, "copies", kept)).toEqual([]);
  await sluiceOk(server, "rm", "-r", `s3://${fork}/copies/`);
  await expectLeft(0);
  expect(await s3.keys(parent)).toEqual([]);
});
