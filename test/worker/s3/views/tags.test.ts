import { expect, test } from "vitest";
import { keys, text } from "../open-commits/support.ts";
import { failure, good, s3, testContext } from "../support.ts";
import { BEFORE, twoCommits, writesTo } from "./support.ts";

async function tag(
  repo: string,
  name: string,
  { commit, force = false }: { commit: string; force?: boolean },
) {
  const set = await testContext().branch({ repo, branch: "master" }).tags.create({ name, commit, force });
  if (!set.ok) throw new Error(set.reason);
}

test("the bucket of a tag shows the commit that it names, and another one once it is moved", async () => {
  const { repo, first, second, times, branch } = await twoCommits("tagged");
  await tag(repo, "v1", { commit: first });
  const bucket = `/v1${branch.replace("/", ".")}`;
  expect(await keys(bucket)).toEqual(Object.keys(BEFORE));
  expect(await text(`${bucket}/a`)).toBe("first a");
  const head = await good(`HEAD ${bucket}/a`);
  expect([head.headers.get("last-modified"), head.headers.get("x-amz-version-id")]).toEqual([times[0], null]);
  await good(`HEAD ${bucket}`);
  await good(`PUT ${branch}/back`, { headers: { "x-amz-copy-source": `${bucket}/dir/b` } });
  expect(await text(`${branch}/back`)).toBe("first b");
  await tag(repo, "v1", { commit: second, force: true });
  expect([await keys(bucket), await text(`${bucket}/a`)]).toEqual([["a", "dir/c"], "second a"]);
});

test("a tag's name has capitals as it was made with them", async () => {
  const { repo, first, branch } = await twoCommits("tag-case");
  await tag(repo, "Release_2", { commit: first });
  expect(await keys(`/Release_2${branch.replace("/", ".")}`)).toEqual(Object.keys(BEFORE));
  expect(await failure(s3(`GET /release_2${branch.replace("/", ".")}`))).toMatchObject({
    status: 404,
    Code: "NoSuchBucket",
    Message: expect.stringContaining("sluice tag list"),
  });
});

test("the bucket of a tag takes no writes and no uploads, whether the tag is there or not", async () => {
  const { repo, first, branch } = await twoCommits("tag-unwritten");
  await tag(repo, "v1", { commit: first });
  for (const name of ["v1", "v2"]) {
    const bucket = `/${name}${branch.replace("/", ".")}`;
    for (const [line, body] of writesTo(bucket)) {
      const { status, Code, Message } = await failure(s3(line, body === undefined ? {} : { body }));
      expect({ line, status, Code }).toEqual({ line, status: 405, Code: "MethodNotAllowed" });
      expect(Message).toContain(`Write to '${branch.slice(1)}'`);
    }
  }
  expect(await keys(branch)).toEqual(["a", "dir/c"]);
});

test("a deletion of the branch ends its tags, also if the branch is made again", async () => {
  const { repo, first, branch } = await twoCommits("tag-ended");
  await tag(repo, "v1", { commit: first });
  const bucket = `/v1${branch.replace("/", ".")}`;
  await good(`DELETE ${branch}`);
  expect(await failure(s3(`GET ${bucket}`))).toMatchObject({ status: 404, Code: "NoSuchBucket" });
  await good(`PUT ${branch}`);
  expect(await failure(s3(`GET ${bucket}`))).toMatchObject({ status: 404, Code: "NoSuchBucket" });
});
