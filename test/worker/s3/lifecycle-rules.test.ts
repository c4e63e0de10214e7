import { beforeAll, describe, expect, test } from "vitest";
import { branchOf, startOpenCommit } from "../branch/support.ts";
import { failure, good, s3, scopedKey, xml } from "./support.ts";

const BUCKET = "/master.ruled";
const rules = (...texts: string[]): string =>
  `<LifecycleConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${texts.join("")}</LifecycleConfiguration>`;
const rule = (inner: string, about = "<Filter><Prefix>logs/</Prefix></Filter>"): string =>
  `<Rule>${about}<Status>Enabled</Status>${inner}</Rule>`;
const putRules = (bucket: string, ...texts: string[]) =>
  s3(`PUT ${bucket}?lifecycle`, { body: rules(...texts) });
const expires = "<Expiration><Days>30</Days></Expiration>";
const tag = (key: string, value: string): string => `<Tag><Key>${key}</Key><Value>${value}</Value></Tag>`;
const aborts =
  "<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>";

beforeAll(async () => {
  await good(`PUT ${BUCKET}`);
});

describe("the lifecycle rules of a bucket", () => {
  test("are given back as they were put, and replaced and deleted as a whole", async () => {
    const bucket = "/master.rules";
    await good(`PUT ${bucket}`);
    expect(await failure(s3(`GET ${bucket}?lifecycle`))).toMatchObject({
      status: 404,
      Code: "NoSuchLifecycleConfiguration",
    });
    const all = [
      `<Rule>${expires}<ID>logs</ID><Filter><Prefix>logs/</Prefix></Filter><Status>Enabled</Status>${aborts}</Rule>`,
      "<Rule><Expiration><Date>2030-01-01T00:00:00.000Z</Date></Expiration><ID>then</ID><Filter></Filter><Status>Disabled</Status></Rule>",
      `<Rule>${expires}<ID>old</ID><Prefix>old &amp; gone/</Prefix><Status>Enabled</Status></Rule>`,
      `<Rule>${expires}<ID>one tag</ID><Filter>${tag("kind", "scratch")}</Filter><Status>Enabled</Status></Rule>`,
      `<Rule>${expires}<ID>tags</ID><Filter><And>${tag("a", "1")}${tag("b", "")}</And></Filter><Status>Enabled</Status></Rule>`,
      `<Rule>${expires}<ID>both</ID><Filter><And><Prefix>a/</Prefix>${tag("a", "1")}</And></Filter><Status>Enabled</Status></Rule>`,
    ];
    expect((await putRules(bucket, ...all)).status).toBe(200);
    const text = await (await good(`GET ${bucket}?lifecycle`)).text();
    expect(text).toContain(rules(...all));
    expect((await s3(`PUT ${bucket}?lifecycle`, { body: text })).status).toBe(200);
    expect((await putRules(bucket, rule(aborts))).status).toBe(200);
    const { LifecycleConfiguration } = await xml(good(`GET ${bucket}?lifecycle`));
    expect(LifecycleConfiguration.Rule).toMatchObject({ Status: "Enabled" });
    expect(LifecycleConfiguration.Rule).not.toHaveProperty("Expiration");
    expect((await s3(`DELETE ${bucket}?lifecycle`)).status).toBe(204);
    expect((await s3(`DELETE ${bucket}?lifecycle`)).status).toBe(204);
    expect((await s3(`GET ${bucket}?lifecycle`)).status).toBe(404);
  });

  test("without an id get one, the same each time, and each its own", async () => {
    const ids = async () => {
      await putRules(BUCKET, rule(expires), rule(expires), rule(aborts));
      const { LifecycleConfiguration } = await xml(good(`GET ${BUCKET}?lifecycle`));
      return LifecycleConfiguration.Rule.map(({ ID }: { ID: string }) => ID);
    };
    const first = await ids();
    expect(new Set(first).size).toBe(3);
    expect(await ids()).toEqual(first);
  });

  test("end with the branch", async () => {
    const bucket = "/master.gone";
    await good(`PUT ${bucket}`);
    await putRules(bucket, rule(expires));
    await good(`DELETE ${bucket}`);
    await good(`PUT ${bucket}`);
    expect((await s3(`GET ${bucket}?lifecycle`)).status).toBe(404);
  });

  test("are 1,000 at most", async () => {
    const many = Array.from({ length: 1001 }, () => rule(aborts));
    expect((await putRules(BUCKET, ...many.slice(1))).status).toBe(200);
    const tags = Array.from({ length: 10 }, (_, n) => tag(`k${n}`, "v"));
    const full = rule(
      `<ID></ID>${expires}`,
      `<Filter><And><Prefix>logs/</Prefix>${tags.join("")}</And></Filter>`,
    );
    expect((await putRules(BUCKET, ...many.slice(1).map(() => full))).status).toBe(200);
    expect(await failure(putRules(BUCKET, ...many))).toMatchObject({
      status: 400,
      Code: "InvalidRequest",
      Message: expect.stringContaining("1000"),
    });
  });

  test("need level admin, to be seen too", async () => {
    const key = scopedKey({ level: "write", repos: ["ruled"] });
    for (const line of [`PUT ${BUCKET}?lifecycle`, `GET ${BUCKET}?lifecycle`, `DELETE ${BUCKET}?lifecycle`]) {
      const ask = line.startsWith("PUT") ? { body: rules(rule(expires)) } : {};
      expect((await s3(line, { ...ask, key })).status).toBe(403);
    }
  });

  test("are those of the branch: the bucket of an open commit has none", async () => {
    const openCommit = await startOpenCommit(branchOf("master.ruled"));
    expect(await failure(s3(`GET /${openCommit}.master.ruled?lifecycle`))).toMatchObject({
      status: 400,
      Code: "InvalidRequest",
      Message: expect.stringContaining("whole branch"),
    });
  });
});

describe("what S3 knows and is not here is 501, by name, and nothing is set", () => {
  test.each([
    [
      "Transition",
      rule(`${expires}<Transition><Days>1</Days><StorageClass>GLACIER</StorageClass></Transition>`),
    ],
    [
      "NoncurrentVersionTransition",
      rule("<NoncurrentVersionTransition><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionTransition>"),
    ],
    [
      "NoncurrentVersionExpiration with a Tag",
      rule(
        "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>",
        "<Filter><Tag><Key>a</Key><Value>b</Value></Tag></Filter>",
      ),
    ],
    [
      "ObjectSizeGreaterThan",
      rule(expires, "<Filter><ObjectSizeGreaterThan>1</ObjectSizeGreaterThan></Filter>"),
    ],
    ["ObjectSizeLessThan", rule(expires, "<Filter><ObjectSizeLessThan>1</ObjectSizeLessThan></Filter>")],
    [
      "ExpiredObjectDeleteMarker",
      rule("<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"),
    ],
    [
      "NewerNoncurrentVersions",
      rule(
        "<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays><NewerNoncurrentVersions>3</NewerNoncurrentVersions></NoncurrentVersionExpiration>",
        "<Filter/>",
      ),
    ],
    [
      "NoncurrentVersionExpiration with a Prefix",
      rule("<NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration>"),
    ],
  ])("%s", async (name, text) => {
    const bucket = "/master.untouched";
    await s3(`PUT ${bucket}`);
    const refused = await failure(putRules(bucket, rule(aborts), text));
    expect(refused).toMatchObject({ status: 501, Code: "NotImplemented" });
    expect(refused.Message).toContain(`${name} in a lifecycle rule`);
    expect((await s3(`GET ${bucket}?lifecycle`)).status).toBe(404);
  });
});

describe("what S3 refuses is refused as there", () => {
  test.each([
    ["no rule", rules(), "MalformedXML", "no Rule"],
    ["no XML", "nonsense", "MalformedXML", ""],
    ["another root", "<Other/>", "MalformedXML", "LifecycleConfiguration"],
    ["another tag", rules("<Rules/>"), "MalformedXML", "Rules"],
    ["another tag in a rule", rules(rule("<Expire/>")), "MalformedXML", "Expire"],
    ["no filter", rules(rule(expires, "")), "MalformedXML", "Filter"],
    [
      "an upload's end by tag",
      rules(rule(aborts, `<Filter>${tag("a", "1")}</Filter>`)),
      "InvalidRequest",
      "cannot be specified with Tags",
    ],
    [
      "a tag twice",
      rules(rule(expires, `<Filter><And>${tag("a", "1")}${tag("a", "2")}</And></Filter>`)),
      "InvalidRequest",
      "Duplicate Tag Keys",
    ],
    ["a bad tag", rules(rule(expires, `<Filter>${tag("a*", "1")}</Filter>`)), "InvalidTag", "TagKey"],
    [
      "two tags without And",
      rules(rule(expires, `<Filter>${tag("a", "1")}${tag("b", "1")}</Filter>`)),
      "MalformedXML",
      "one Tag",
    ],
    [
      "a prefix and a tag without And",
      rules(rule(expires, `<Filter><Prefix>a</Prefix>${tag("b", "1")}</Filter>`)),
      "MalformedXML",
      "one of Prefix, Tag and And",
    ],
    ["an empty And", rules(rule(expires, "<Filter><And/></Filter>")), "MalformedXML", "And"],
    [
      "a filter and a prefix",
      rules(rule(expires, "<Filter/><Prefix>a</Prefix>")),
      "MalformedXML",
      "not both",
    ],
    ["no status", rules(`<Rule><Filter/>${expires}</Rule>`), "MalformedXML", "Status"],
    ["another status", rules(`<Rule><Filter/><Status>on</Status>${expires}</Rule>`), "MalformedXML", "'on'"],
    ["no action", rules(rule("")), "InvalidRequest", "At least one action"],
    ["no days", rules(rule("<Expiration/>")), "MalformedXML", "Days"],
    ["0 days", rules(rule("<Expiration><Days>0</Days></Expiration>")), "InvalidArgument", "'Days'"],
    ["a day and a half", rules(rule("<Expiration><Days>1.5</Days></Expiration>")), "InvalidArgument", "1.5"],
    [
      "too many days",
      rules(rule("<Expiration><Days>2147483648</Days></Expiration>")),
      "InvalidArgument",
      "at most 2147483647",
    ],
    [
      "days and a date",
      rules(rule("<Expiration><Days>1</Days><Date>2030-01-01T00:00:00Z</Date></Expiration>")),
      "MalformedXML",
      "not both",
    ],
    [
      "a date that is no midnight",
      rules(rule("<Expiration><Date>2030-01-01T00:00:01Z</Date></Expiration>")),
      "InvalidArgument",
      "midnight GMT",
    ],
    [
      "a day that no month has",
      rules(rule("<Expiration><Date>2027-02-30</Date></Expiration>")),
      "MalformedXML",
      "2027-02-30",
    ],
    ["no date", rules(rule("<Expiration><Date>soon</Date></Expiration>")), "MalformedXML", "soon"],
    [
      "two rules of one id",
      rules(rule(`<ID>a</ID>${expires}`), rule(`<ID>a</ID>${aborts}`)),
      "InvalidArgument",
      "unique",
    ],
    ["a long id", rules(rule(`<ID>${"x".repeat(256)}</ID>${expires}`)), "InvalidArgument", "255"],
    [
      "a long prefix",
      rules(rule(expires, `<Filter><Prefix>${"x".repeat(1025)}</Prefix></Filter>`)),
      "InvalidRequest",
      "1024",
    ],
  ])("%s", async (_, body, code, words) => {
    const refused = await failure(s3(`PUT ${BUCKET}?lifecycle`, { body }));
    expect(refused).toMatchObject({ status: 400, Code: code });
    expect(refused.Message).toContain(words);
  });
});

describe("rules by which files expire", () => {
  test("are refused on the output of a pipeline; rules for uploads are not", async () => {
    await branchOf("out.ruled").output.claim({ pipeline: "p", uid: "u" });
    expect(await failure(putRules("/out.ruled", rule(expires)))).toMatchObject({
      status: 403,
      Code: "AccessDenied",
      Message: expect.stringContaining("output of a pipeline"),
    });
    expect((await putRules("/out.ruled", rule(aborts))).status).toBe(200);
  });

  test("are refused on a branch that is protected for another key", async () => {
    await good("PUT /closed.ruled");
    await branchOf("closed.ruled").settings.change({ writer: { key: "another" } });
    expect(await failure(putRules("/closed.ruled", rule(expires)))).toMatchObject({
      status: 403,
      Code: "AccessDenied",
      Message: expect.stringContaining("protected"),
    });
  });
});

describe("NoncurrentVersionExpiration", () => {
  const old = (days: number, more = "") =>
    rule(
      `<NoncurrentVersionExpiration><NoncurrentDays>${days}</NoncurrentDays></NoncurrentVersionExpiration>${more}`,
      "<Filter/>",
    );
  const keepOf = async () => {
    const settings = await branchOf("master.history").settings.read();
    return settings.ok && settings.keep;
  };
  const shown = async () => {
    const answer = await s3("GET /master.history?lifecycle");
    return answer.status === 200
      ? (await answer.text()).match(/<NoncurrentDays>\d+|<DaysAfterInitiation>\d+/g)
      : answer.status;
  };

  test("is what 'sluice branch keep' says: of the two, what was said last", async () => {
    await good("PUT /master.history");
    const branch = branchOf("master.history");
    await good("PUT /master.history?lifecycle", { body: rules(old(9), old(5, aborts)) });
    expect(await keepOf()).toEqual({ days: 5 });
    expect(await shown()).toEqual(["<NoncurrentDays>9", "<NoncurrentDays>5", "<DaysAfterInitiation>7"]);
    await branch.settings.change({ keep: { commits: 100 } });
    expect(await shown()).toEqual(["<DaysAfterInitiation>7"]);
    await good("PUT /master.history?lifecycle", { body: rules(rule(aborts)) });
    expect(await keepOf()).toEqual({ commits: 100 });
    await good("PUT /master.history?lifecycle", { body: rules(old(3)) });
    expect(await keepOf()).toEqual({ days: 3 });
    await branch.settings.change({ keep: null });
    expect(await shown()).toBe(404);
  });

  test("keeps everything again when it goes", async () => {
    await s3("PUT /master.history");
    for (const end of [
      () => good("DELETE /master.history?lifecycle"),
      () => good("PUT /master.history?lifecycle", { body: rules(rule(aborts)) }),
    ]) {
      await good("PUT /master.history?lifecycle", { body: rules(old(3)) });
      expect(await keepOf()).toEqual({ days: 3 });
      await end();
      expect(await keepOf()).toBeNull();
    }
  });
});
