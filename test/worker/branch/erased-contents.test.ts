import { env, evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { expect, test } from "vitest";
import { contentName } from "../../../protocol/content.ts";
import { openCatalogue } from "../../../worker/catalogue/catalogue.ts";
import { atRest } from "./fork-support.ts";
import { crashAt } from "./large-support.ts";
import { type BranchStub, committed, freshBranch, inline, put } from "./support.ts";

const { erasedContents: list } = openCatalogue(env.DB);

async function erase(branch: BranchStub, ...versions: readonly (readonly [string, string | null])[]) {
  const answer = await branch.erasures.erase({
    versions: versions.map(([path, version]) => ({ path, version: version ?? "" })),
  });
  expect(answer.ok).toBe(true);
}

/** What nodes are told that have come to this place. */
async function toldSince(place: string): Promise<readonly string[]> {
  return (await list.since(place)).contents;
}

async function newest(): Promise<string> {
  return (await list.since(null)).upTo;
}

/** As if the list could not be written while `work` runs. */
async function withoutList(work: () => Promise<void>): Promise<void> {
  await env.DB.prepare(
    "CREATE TRIGGER deaf BEFORE INSERT ON erased_contents BEGIN SELECT RAISE(ABORT, 'can not be written'); END",
  ).run();
  try {
    await work();
  } finally {
    await env.DB.exec("DROP TRIGGER deaf");
  }
}

function waiting(branch: BranchStub): Promise<number> {
  return runInDurableObject(branch, (_, { storage: { sql } }) =>
    Number(sql.exec("SELECT count(*) AS n FROM erased_contents").one().n),
  );
}

test("nodes are told of each content that is erased, also of one that something else has, and of nothing else", async () => {
  const branch = await freshBranch();
  const [place, one] = [await newest(), await put(branch, "a", "one")];
  const two = await put(branch, "b", "two");
  await put(branch, "kept", "two");
  const empty = await put(branch, "empty", "");
  await put(branch, "deleted", "three");
  committed(await branch.files.commit({ operations: [{ delete: "deleted" }] }));
  expect(await toldSince(place)).toEqual([]);
  await erase(branch, ["a", one], ["b", two], ["empty", empty], ["kept", "no such commit"]);
  const names = ["one", "two"].map((text) => contentName(inline(text)));
  await expect.poll(async () => [...(await toldSince(place))].sort()).toEqual(names.sort());
  expect(await waiting(branch)).toBe(0);
  await atRest(branch);
});

test("what could not be told is told by the alarm, once, also of a branch that was deleted and restarted meanwhile", async () => {
  const branch = await freshBranch();
  const place = await newest();
  const commit = await put(branch, "a", "one");
  await withoutList(async () => {
    await erase(branch, ["a", commit]);
    await expect.poll(() => waiting(branch)).toBe(1);
    await branch.lifecycle.destroy();
    await evictDurableObject(branch);
    await runDurableObjectAlarm(branch);
  });
  expect(await toldSince(place)).toEqual([]);
  await atRest(branch);
  expect(await toldSince(place)).toEqual([contentName(inline("one"))]);
  expect(await waiting(branch)).toBe(0);
});

test("what was told just before a crash is told again, and what was erased meanwhile goes along", async () => {
  const branch = await freshBranch();
  const place = await newest();
  const commits = [await put(branch, "a", "one"), await put(branch, "b", "two")];
  const crash = crashAt({ statement: /DELETE FROM erased_contents/, nth: 1 });
  await erase(branch, ["a", commits[0] ?? null]);
  await crash.reached();
  crash.resume();
  await evictDurableObject(branch);
  await erase(branch, ["b", commits[1] ?? null]);
  await atRest(branch);
  const told = await toldSince(place);
  expect(new Set(told)).toEqual(new Set(["one", "two"].map((text) => contentName(inline(text)))));
  expect(await waiting(branch)).toBe(0);
});

test("who asks for the bytes after the erasure does not get them, though the alarm has not removed them yet", async () => {
  const branch = await freshBranch();
  const texts = Array.from({ length: 30 }, (_, n) => `text ${n}`);
  const versions: [string, string | null][] = [];
  for (const text of texts) versions.push([text, await put(branch, text)]);
  await erase(branch, ...versions);
  const found = await Promise.all(
    texts.map(async (text) => {
      const { digest, size } = inline(text);
      return (await branch.files.content({ digest, size, liveOnly: false })).ok;
    }),
  );
  expect(found).toEqual(texts.map(() => false));
});
