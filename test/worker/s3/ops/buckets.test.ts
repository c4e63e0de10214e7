import { env } from "cloudflare:test";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { openCatalogue } from "../../../../worker/catalogue/catalogue.ts";
import { branchOf } from "../../branch/support.ts";
import { type Ask, answer, failure, good, s3, scopedKey, signed, unsigned, xml } from "../support.ts";

function located(region: string): string {
  return `<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><LocationConstraint>${region}</LocationConstraint></CreateBucketConfiguration>`;
}

describe("CreateBucket", () => {
  test("makes the branch, which is then there and listed", async () => {
    const made = await good("PUT /master.created");
    expect([made.status, made.headers.get("location")]).toEqual([200, "/master.created"]);
    expect(made.headers.get("x-amz-bucket-arn")).toBe("arn:aws:s3:::master.created");
    expect((await s3("HEAD /master.created")).status).toBe(200);
    const { ListAllMyBucketsResult } = await xml(good("GET /"));
    expect(ListAllMyBucketsResult.Buckets.Bucket).toContainEqual({
      Name: "master.created",
      CreationDate: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    });
  });

  test("answers BucketAlreadyOwnedByYou the second time", async () => {
    await good("PUT /master.twice");
    expect(await failure(s3("PUT /master.twice"))).toMatchObject({
      status: 409,
      Code: "BucketAlreadyOwnedByYou",
    });
  });

  test.each([
    ["eu-west-1", "weur"],
    ["OC", "oc"],
    ["fr-par", null],
  ])("makes the branch in the location %s, which it and the catalogue keep", async (region, hint) => {
    const address = { repo: `located-${region}`, branch: "master" };
    const made = vi.spyOn(Object.getPrototypeOf(env.BRANCH), "getByName");
    expect((await s3(`PUT /master.${address.repo}/`, { body: located(region) })).status).toBe(200);
    const options = hint === null ? undefined : { locationHint: hint };
    expect(made).toHaveBeenCalledWith(`master.${address.repo}`, options);
    made.mockRestore();
    const place = { region: region.toLowerCase(), hint };
    expect(await branchOf(`master.${address.repo}`).lifecycle.inspect()).toMatchObject({ place });
    expect(await openCatalogue(env.DB).branches.placeOf(address)).toEqual(place);
  });

  test.each([
    "",
    "auto",
    "us-east-1",
  ])("makes it nowhere in particular if the location is '%s'", async (region) => {
    const repo = `located-nowhere-${region}`;
    await good(`PUT /master.${repo}`, { body: located(region) });
    expect(await branchOf(`master.${repo}`).lifecycle.inspect()).toMatchObject({ place: null });
  });

  test("leaves a branch where it is that is deleted and made again elsewhere", async () => {
    for (const region of ["sa-east-1", "ap-southeast-2"]) {
      await good("PUT /master.moved", { body: located(region) });
      const place = { region: "sa-east-1", hint: "sam" };
      expect(await branchOf("master.moved").lifecycle.inspect()).toMatchObject({ place });
      await good("DELETE /master.moved");
    }
  });

  test("refuses a location that looks like no region, with those that it knows, and makes nothing", async () => {
    const refused = await failure(s3("PUT /master.unlocated", { body: located("Frankfurt am Main") }));
    expect(refused).toMatchObject({ status: 400, Code: "InvalidLocationConstraint" });
    expect(refused.Message).toMatch(/^LocationConstraint is "Frankfurt am Main", but must be .*eu-central-1/);
    expect((await s3("HEAD /master.unlocated")).status).toBe(404);
  });

  test.each([
    ["MalformedXML", 400, "<CreateBucketConfiguration>"],
    ["MalformedXML", 400, "<Other/>"],
    ["MalformedXML", 400, located("<Deep/>")],
    ["NotImplemented", 501, "<CreateBucketConfiguration><Tags><Tag/></Tags></CreateBucketConfiguration>"],
  ])("answers %s (%d) to the body %s, and makes nothing", async (Code, status, body) => {
    expect(await failure(s3("PUT /master.refused", { body }))).toMatchObject({ status, Code });
    expect((await s3("HEAD /master.refused")).status).toBe(404);
  });
});

describe("DeleteBucket", () => {
  test("deletes a branch with files in it, and what is made anew is empty", async () => {
    await good("PUT /master.doomed");
    await good("PUT /master.doomed/key", { body: "x" });
    expect((await good("DELETE /master.doomed")).status).toBe(204);
    expect((await s3("HEAD /master.doomed")).status).toBe(404);
    await good("PUT /master.doomed");
    expect((await failure(s3("GET /master.doomed/key"))).Code).toBe("NoSuchKey");
  });

  test("answers NoSuchBucket where there is none", async () => {
    expect(await failure(s3("DELETE /master.missing"))).toMatchObject({ status: 404, Code: "NoSuchBucket" });
  });
});

describe("a gateway that says what new buckets are set to", () => {
  const config = { newBuckets: { keep: { commits: 1 }, emptyOnly: true } } as const;
  const ask = async (line: string, asked: Ask = {}) => await answer(await signed(line, asked), { config });
  const settingsOf = async (repo: string) => {
    const { ok: _, ...settings } = { ...(await branchOf(`master.${repo}`).settings.read()) };
    return settings;
  };

  test("makes such buckets, which DeleteBucket deletes only while they are empty", async () => {
    expect((await ask("PUT /master.set-so", { headers: { "x-amz-acl": "public-read" } })).status).toBe(200);
    expect(await settingsOf("set-so")).toMatchObject({ keep: { commits: 1 }, emptyOnly: true, public: true });
    await ask("PUT /master.set-so/key", { body: "x" });
    expect(await failure(ask("DELETE /master.set-so"))).toMatchObject({
      ...{ status: 409, Code: "BucketNotEmpty" },
      Message: expect.stringContaining("sluice rb --force"),
    });
    expect((await ask("GET /master.set-so/key")).status).toBe(200);
    expect((await ask("DELETE /master.set-so/key")).status).toBe(204);
    expect((await ask("DELETE /master.set-so")).status).toBe(204);
  });

  test("leaves buckets as they are that are there, also if they are made again", async () => {
    await good("PUT /master.set-before");
    await good("PUT /master.set-before/key", { body: "x" });
    const before = await settingsOf("set-before");
    expect((await failure(ask("PUT /master.set-before"))).Code).toBe("BucketAlreadyOwnedByYou");
    expect(await settingsOf("set-before")).toEqual(before);
    expect(before).toMatchObject({ keep: null, emptyOnly: false });
    expect((await ask("DELETE /master.set-before")).status).toBe(204);
  });

  test("is asked by DeleteBucket what the bucket is set to, and not what the gateway is", async () => {
    expect((await ask("PUT /master.set-once")).status).toBe(200);
    await good("PUT /master.set-once/key", { body: "x" });
    expect((await failure(s3("DELETE /master.set-once"))).Code).toBe("BucketNotEmpty");
  });
});

describe("what is asked of a bucket that is not there", () => {
  test.each([
    "GET /master.missing",
    "GET /master.missing?list-type=2",
    "GET /master.missing?max-keys=0",
    "GET /master.missing?location",
    "GET /master.missing?versioning",
    "GET /master.missing/key",
    "DELETE /master.missing/key",
  ])("%s is NoSuchBucket", async (line) => {
    expect(await failure(s3(line))).toMatchObject({ status: 404, Code: "NoSuchBucket" });
  });

  test("reading leaves no bucket behind", async () => {
    await s3("HEAD /master.probed");
    await s3("GET /master.probed/key");
    const { ListAllMyBucketsResult } = await xml(good("GET /"));
    const names = ListAllMyBucketsResult.Buckets.Bucket.map(({ Name }: { Name: string }) => Name);
    expect(names).not.toContain("master.probed");
  });
});

test("GetBucketLocation is the same for all, and versioning is on", async () => {
  await good("PUT /master.asked");
  expect(await (await good("GET /master.asked?location")).text()).toContain(
    '<LocationConstraint xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></LocationConstraint>',
  );
  const { VersioningConfiguration } = await xml(good("GET /master.asked?versioning"));
  expect(VersioningConfiguration.Status).toBe("Enabled");
});

test("HeadBucket and CreateBucket say the region that GetBucketLocation means, of views and to everybody, too", async () => {
  const region = (response: Response) => [response.status, response.headers.get("x-amz-bucket-region")];
  const location =
    "<CreateBucketConfiguration><LocationConstraint>eu-west-1</LocationConstraint></CreateBucketConfiguration>";
  const open = { "x-amz-acl": "public-read" };
  expect(region(await s3("PUT /master.region", { headers: open, body: location }))).toEqual([
    200,
    "us-east-1",
  ]);
  const put = await good("PUT /master.region/key", { body: "x" });
  for (const bucket of ["region", "master.region", `${put.headers.get("x-amz-version-id")}.master.region`]) {
    expect(region(await s3(`HEAD /${bucket}`))).toEqual([200, "us-east-1"]);
    expect(region(await answer(unsigned(`HEAD /${bucket}`)))).toEqual([200, "us-east-1"]);
  }
});

test("HeadBucket says the region also to callers who may not see the bucket, and the same of one that is not there", async () => {
  await good("PUT /master.elsewhere");
  const stranger = { id: "nobody", secret: "nothing" };
  for (const bucket of ["elsewhere", "master.elsewhere", "master.nowhere"]) {
    for (const asked of [unsigned(`HEAD /${bucket}`), await signed(`HEAD /${bucket}`, { key: stranger })]) {
      const refused = await answer(asked);
      expect([refused.status, refused.headers.get("x-amz-bucket-region")]).toEqual([403, "us-east-1"]);
    }
    expect((await answer(unsigned(`GET /${bucket}`))).headers.has("x-amz-bucket-region")).toBe(false);
  }
});

describe("ListBuckets", () => {
  beforeAll(async () => {
    const { branches } = openCatalogue(env.DB);
    for (let i = 0; i < 5; i++) {
      await branches.record({ repo: `paged-${i}`, branch: "b", version: 1, deleted: false, createdAt: i });
    }
  });

  test("pages by max-buckets and continuation-token, and names each bucket once", async () => {
    const names: string[] = [];
    let token = "";
    do {
      const { ListAllMyBucketsResult: page } = await xml(good(`GET /?max-buckets=2${token}`));
      const found: { Name: string }[] = page.Buckets.Bucket ?? [];
      expect(found.length).toBeLessThanOrEqual(2);
      names.push(...found.map(({ Name }) => Name));
      token = page.ContinuationToken ? `&continuation-token=${page.ContinuationToken}` : "";
    } while (token !== "");
    const { ListAllMyBucketsResult: all } = await xml(good("GET /"));
    expect(names).toEqual(all.Buckets.Bucket.map(({ Name }: { Name: string }) => Name));
    expect(names).toEqual(expect.arrayContaining(["b.paged-0", "b.paged-4"]));
  });

  test("finds buckets by the beginning of their name, among others and in pages", async () => {
    for (const name of ["one.found", "two.found", "one.other", "ones.found"]) await good(`PUT /${name}`);
    const names = async (query: string): Promise<string[]> => {
      const { ListAllMyBucketsResult: page } = await xml(good(`GET /?${query}`));
      return (page.Buckets.Bucket ?? []).map(({ Name }: { Name: string }) => Name);
    };
    expect(await names("prefix=one")).toEqual(["one.found", "ones.found", "one.other"]);
    expect(await names("prefix=one.")).toEqual(["one.found", "one.other"]);
    expect(await names("prefix=one.f")).toEqual(["one.found"]);
    expect(await names("prefix=none")).toEqual([]);
    const { ListAllMyBucketsResult: first } = await xml(good("GET /?prefix=one&max-buckets=2"));
    expect([first.Prefix, first.Buckets.Bucket.length]).toEqual(["one", 2]);
    const rest = `prefix=one&continuation-token=${first.ContinuationToken}`;
    expect(await names(rest)).toEqual(["one.other"]);
  });

  test("shows a key for some repos those, page by page", async () => {
    for (const name of ["a.mine", "b.mine", "a.yours", "a.also-mine"]) await good(`PUT /${name}`);
    const key = scopedKey({ level: "read", repos: ["mine", "also-mine", "not-there"] });
    const { ListAllMyBucketsResult: first } = await xml(good("GET /?max-buckets=2", { key }));
    const { ListAllMyBucketsResult: second } = await xml(
      good(`GET /?max-buckets=2&continuation-token=${first.ContinuationToken}`, { key }),
    );
    const names = [first, second].flatMap((page) =>
      page.Buckets.Bucket.map(({ Name }: { Name: string }) => Name),
    );
    expect(names).toEqual(["a.also-mine", "a.mine", "b.mine"]);
    expect(second.ContinuationToken).toBeUndefined();
  });

  test.each([
    "max-buckets=0",
    "max-buckets=x",
    "max-buckets=10001",
    "continuation-token=x",
  ])("refuses %s", async (query) => {
    expect(await failure(s3(`GET /?${query}`))).toMatchObject({ status: 400, Code: "InvalidArgument" });
  });
});
