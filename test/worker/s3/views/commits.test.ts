import { env } from "cloudflare:test";
import { AwsClient } from "aws4fetch";
import { describe, expect, test } from "vitest";
import { bucketName } from "../../../../protocol/names.ts";
import type { BranchApi } from "../../../../worker/branch/contract/api.ts";
import { clientOf } from "../../../../worker/objects/facets.ts";
import { handleS3 } from "../../../../worker/s3/gateway.ts";
import { keys, openOn, text } from "../open-commits/support.ts";
import { answer, failure, good, ROOT_KEY, s3, scopedKey, signed, testContext, xml } from "../support.ts";
import { BEFORE, twoCommits, writesTo } from "./support.ts";

describe("the bucket of a commit", () => {
  test("is there, somewhere, without versions, and in no list of buckets", async () => {
    const { bucket, repo } = await twoCommits("there");
    await good(`HEAD ${bucket}`);
    expect(await (await good(`GET ${bucket}?location`)).text()).toContain("LocationConstraint");
    expect((await xml(good(`GET ${bucket}?versioning`))).VersioningConfiguration).toEqual("");
    const { ListAllMyBucketsResult: all } = await xml(good("GET /"));
    const names = all.Buckets.Bucket.map(({ Name }: { Name: string }) => Name);
    expect(names.filter((name: string) => name.endsWith(`.${repo}`))).toEqual([`master.${repo}`]);
  });

  test("lists what the branch held then, by both versions of a listing, folded, in pages, in upper and lower case", async () => {
    const { bucket, first, branch, times } = await twoCommits("listed");
    expect(await keys(bucket)).toEqual(Object.keys(BEFORE));
    expect(await keys(branch)).toEqual(["a", "dir/c"]);
    const upper = bucket.replace(first.toLowerCase(), first);
    const { ListBucketResult: one } = await xml(good(`GET ${upper}?delimiter=/`));
    expect(one.Name).toBe(upper.slice(1));
    const [file, ...others] = one.Contents;
    expect([file.Key, file.Size, others]).toEqual(["a", "7", []]);
    expect(new Date(file.LastModified).toUTCString()).toBe(times[0]);
    expect(one.CommonPrefixes).toEqual([{ Prefix: "dir/" }]);
    const found: string[] = [];
    let token = "";
    do {
      const { ListBucketResult: page } = await xml(good(`GET ${bucket}?list-type=2&max-keys=1${token}`));
      found.push(...page.Contents.map(({ Key }: { Key: string }) => Key));
      token = page.NextContinuationToken && `&continuation-token=${page.NextContinuationToken}`;
    } while (token);
    expect(found).toEqual(Object.keys(BEFORE));
    expect((await xml(good(`GET ${bucket}?max-keys=0`))).ListBucketResult.IsTruncated).toBe("false");
  });

  test("reads what the branch held then, with its time: whole, in ranges, under conditions, with other headers", async () => {
    const { bucket, times, branch } = await twoCommits("read");
    for (const [key, body] of Object.entries(BEFORE)) expect(await text(`${bucket}/${key}`)).toBe(body);
    expect(await text(`${branch}/a`)).toBe("second a");
    const head = await good(`HEAD ${bucket}/a`);
    expect(head.headers.get("last-modified")).toBe(times[0]);
    expect(head.headers.get("x-amz-version-id")).toBeNull();
    expect(head.headers.get("content-length")).toBe("7");
    const range = await good(`GET ${bucket}/dir/c`, { headers: { range: "bytes=2-4" } });
    expect([range.status, await range.text()]).toEqual([206, "234"]);
    const etag = head.headers.get("etag") ?? "";
    expect((await s3(`GET ${bucket}/a`, { headers: { "if-none-match": etag } })).status).toBe(304);
    expect((await s3(`GET ${bucket}/a`, { headers: { "if-match": '"other"' } })).status).toBe(412);
    const other = await good(`GET ${bucket}/a?response-content-type=text/x-then`);
    expect(other.headers.get("content-type")).toBe("text/x-then");
    const asked = { headers: { "x-amz-object-attributes": "ObjectSize,ETag" } };
    const attributes = await good(`GET ${bucket}/a?attributes`, asked);
    expect(attributes.headers.get("last-modified")).toBe(times[0]);
    expect((await xml(attributes)).GetObjectAttributesResponse.ObjectSize).toBe("7");
    await good(`GET ${bucket}/a?tagging`);
    expect(await failure(s3(`GET ${bucket}/none`))).toMatchObject({ status: 404, Code: "NoSuchKey" });
  });

  test("takes one call to the branch for a read, a listing and a look at the bucket, as HEAD does", async () => {
    const { bucket, branch, repo } = await twoCommits("calls");
    const { bucket: open } = await openOn("calls-open");
    for (const place of [bucket, branch, open]) {
      for (const line of [`GET ${place}`, `GET ${place}?list-type=2`, `HEAD ${place}`, `HEAD ${place}/a`]) {
        const calls: string[] = [];
        const counted = (address: { repo: string; branch: string }): BranchApi =>
          clientOf<BranchApi>({
            async call(name, args) {
              calls.push(name);
              return await env.BRANCH.getByName(bucketName(address)).call(name, args);
            },
          });
        const context = { ...testContext(), branch: counted };
        await handleS3(await signed(line), { context, now: Date.now });
        expect({ line, repo, calls: calls.length }).toEqual({ line, repo, calls: 1 });
      }
    }
  });

  test("takes no writes and no uploads: 405, which says what it is and where to write", async () => {
    const { bucket, branch } = await twoCommits("unwritten");
    for (const [line, body] of writesTo(bucket)) {
      const response = await s3(line, body === undefined ? {} : { body });
      expect(response.headers.get("allow")).toBe("GET, HEAD");
      const { status, Code, Message } = await failure(response);
      expect({ line, status, Code }).toEqual({ line, status: 405, Code: "MethodNotAllowed" });
      expect(Message).toContain(`'${bucket.slice(1)}' shows one commit`);
      expect(Message).toContain(`Write to '${branch.slice(1)}'`);
    }
    const copied = await s3(`PUT ${bucket}/copy`, { headers: { "x-amz-copy-source": `${branch}/a` } });
    expect(copied.status).toBe(405);
    expect([await keys(bucket), await keys(branch)]).toEqual([Object.keys(BEFORE), ["a", "dir/c"]]);
  });

  test.each([
    ["GET", "?versions", "has no versions"],
    ["GET", "/a?versionId=x", "has no versions"],
    ["GET", "/a?attributes&versionId=x", "has no versions"],
  ])("has no versions of its own: %s <bucket>%s", async (method, target, says) => {
    const { bucket } = await twoCommits(`unversioned${target.replace(/\W/g, "-")}`);
    const headers = { "x-amz-object-attributes": "ETag" };
    const refused = await failure(s3(`${method} ${bucket}${target}`, { headers }));
    expect(refused).toMatchObject({
      status: 400,
      Code: "InvalidRequest",
      Message: expect.stringContaining(says),
    });
  });

  test("is a source of copies, to bring back what was there, in the branch and in others, whole and as a part", async () => {
    const { bucket, branch } = await twoCommits("source");
    await good("PUT /master.elsewhere");
    for (const target of [`${branch}/a`, `${branch}/dir/again`, "/master.elsewhere/a"]) {
      const copied = await good(`PUT ${target}`, { headers: { "x-amz-copy-source": `${bucket}/a` } });
      expect(copied.headers.get("x-amz-copy-source-version-id")).toBeNull();
      expect(await text(target)).toBe("first a");
    }
    const { UploadId } = (await xml(good(`POST ${branch}/big?uploads`))).InitiateMultipartUploadResult;
    const headers = { "x-amz-copy-source": `${bucket}/dir/c`, "x-amz-copy-source-range": "bytes=1-3" };
    const part = await xml(good(`PUT ${branch}/big?uploadId=${UploadId}&partNumber=1`, { headers }));
    const named = `<Part><PartNumber>1</PartNumber><ETag>${part.CopyPartResult.ETag}</ETag></Part>`;
    const body = `<CompleteMultipartUpload>${named}</CompleteMultipartUpload>`;
    await good(`POST ${branch}/big?uploadId=${UploadId}`, { body });
    expect(await text(`${branch}/big`)).toBe("123");
    const gone = await failure(s3(`PUT ${branch}/x`, { headers: { "x-amz-copy-source": `${bucket}/none` } }));
    expect(gone).toMatchObject({ status: 404, Code: "NoSuchKey" });
  });

  test("is for the keys that may read the repo, as a source too", async () => {
    const { bucket } = await twoCommits("scoped");
    await good("PUT /master.scoped-other");
    const get = (repo: string) => s3(`GET ${bucket}/a`, { key: scopedKey({ level: "read", repos: [repo] }) });
    expect([(await get("scoped")).status, (await get("scoped-other")).status]).toEqual([200, 403]);
    const copy = await s3("PUT /master.scoped-other/a", {
      headers: { "x-amz-copy-source": `${bucket}/a` },
      key: scopedKey({ level: "write", repos: ["scoped-other"] }),
    });
    expect(copy.status).toBe(403);
    // Permission comes before what the bucket is.
    const write = await s3(`PUT ${bucket}/a`, {
      body: "x",
      key: scopedKey({ level: "read", repos: ["scoped"] }),
    });
    expect(write.status).toBe(403);
  });

  test("is read by presigned URLs and by its own host, with dots and as one label", async () => {
    const { bucket } = await twoCommits("hosted");
    const client = new AwsClient({
      accessKeyId: ROOT_KEY.id,
      secretAccessKey: ROOT_KEY.secret,
      service: "s3",
      region: "auto",
    });
    for (const host of [bucket.slice(1), bucket.slice(1).replaceAll(".", "--")]) {
      const url = `http://${host}.s3.sluice.test/dir/c`;
      const link = await client.sign(url, { method: "GET", aws: { signQuery: true } });
      const got = await answer(new Request(link.url), { config: { domain: "s3.sluice.test" } });
      expect([got.status, await got.text()]).toEqual([200, "0123456789"]);
      const list = await client.sign(`http://${host}.s3.sluice.test/`, { method: "GET" });
      const { ListBucketResult } = await xml(answer(list, { config: { domain: "s3.sluice.test" } }));
      expect([ListBucketResult.Name, ListBucketResult.Contents.length]).toEqual([host, 3]);
    }
  });

  test.each([
    ["that was never made", async () => "/01ARZ3NDEKTSV4RRFFQ69G5FAV.master.absent-1"],
    ["of a branch that is not there", async () => "/01ARZ3NDEKTSV4RRFFQ69G5FAV.master.nowhere"],
    [
      "of another branch",
      async () => {
        const { first } = await twoCommits("absent-2");
        await good("PUT /dev.absent-2");
        return `/${first}.dev.absent-2`;
      },
    ],
    [
      "of a branch that was deleted and made again",
      async () => {
        const { bucket, branch } = await twoCommits("absent-3");
        await good(`DELETE ${branch}`);
        await good(`PUT ${branch}`);
        return bucket;
      },
    ],
    [
      "that is the deletion of the branch",
      async () => {
        const { branch } = await twoCommits("absent-4");
        await good(`DELETE ${branch}`);
        await good(`PUT ${branch}`);
        const api = testContext().branch({ repo: "absent-4", branch: "master" });
        const { events } = await api.feed.read({ cursor: { generation: 0, seq: 0 }, limit: 100 });
        const deletion = events.find(({ kind }) => kind === "deletion");
        return `/${deletion?.id}${branch.replace("/", ".")}`;
      },
    ],
  ])("is not there for a commit %s", async (_what, make) => {
    const bucket = await make();
    for (const line of [
      `GET ${bucket}`,
      `GET ${bucket}/a`,
      `GET ${bucket}?location`,
      `GET ${bucket}?max-keys=0`,
    ]) {
      expect(await failure(s3(line))).toMatchObject({ status: 404, Code: "NoSuchBucket" });
    }
    const put = await failure(s3(`PUT ${bucket}/key`, { body: "x".repeat(10_000) }));
    expect(put).toMatchObject({ status: 404, Code: "NoSuchBucket" });
  });
});

test("an open commit that was finished has a bucket no more; the commit that it became has one of its own", async () => {
  const { bucket, api, openCommit, branch } = await openOn("became");
  await good(`PUT ${bucket}/key`, { body: "x" });
  const end = await api.openCommits.finish({ openCommit });
  const commit = end.ok && end.state === "finished" ? end.commit : null;
  expect(await failure(s3(`GET ${bucket}`))).toMatchObject({ Code: "NoSuchBucket" });
  expect(await keys(`/${commit}${branch.replace("/", ".")}`)).toEqual(["key"]);
});
