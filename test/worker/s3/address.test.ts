import { expect, test } from "vitest";
import { hostLabel, OWN_WORDS, parseHostLabel } from "../../../protocol/names.ts";
import { addressOf, parseAddress } from "../../../worker/s3/request/address.ts";

const PATHS = [
  ["/", { level: "service" }],
  ["/b.r", { level: "bucket", by: "path", bucket: "b.r" }],
  ["/b.r/", { level: "bucket", by: "path", bucket: "b.r" }],
  ["/b.r/k", { level: "object", by: "path", bucket: "b.r", key: "k" }],
  ["/b.r/k/l/", { level: "object", by: "path", bucket: "b.r", key: "k/l/" }],
  ["/b.r//k", { level: "object", by: "path", bucket: "b.r", key: "/k" }],
  ["//k", { level: "object", by: "path", bucket: "", key: "k" }],
] as const;

test.each(PATHS)("without a base domain the path %s addresses %o, whatever the host", (path, address) => {
  for (const host of ["s3.example.com", "master.data.s3.example.com", undefined]) {
    expect(parseAddress({ path, host }, { domain: undefined })).toEqual(address);
  }
});

test.each([
  "s3.example.com",
  "S3.Example.COM",
  "s3.example.com:8787",
  "127.0.0.1:8787",
  ".s3.example.com",
  "mys3.example.com",
  "master.data.s3.example.com.evil.test",
  undefined,
])("with a base domain the host %s leaves the bucket to the path", (host) => {
  for (const [path, address] of PATHS) {
    expect(parseAddress({ path, host }, { domain: "s3.example.com" })).toEqual(address);
  }
});

test.each([
  ["/", { level: "bucket", by: "host", bucket: "master.data" }],
  ["/k", { level: "object", by: "host", bucket: "master.data", key: "k" }],
  ["/b.r/k/", { level: "object", by: "host", bucket: "master.data", key: "b.r/k/" }],
  ["//k", { level: "object", by: "host", bucket: "master.data", key: "/k" }],
  ["/api/v1/keys", { level: "object", by: "host", bucket: "master.data", key: "api/v1/keys" }],
])("on the bucket's own host the path %s addresses %o", (path, address) => {
  for (const host of [
    "master.data.s3.example.com",
    "Master.DATA.s3.Example.com",
    "master.data.s3.example.com:8787",
  ]) {
    expect(parseAddress({ path, host }, { domain: "s3.example.com" })).toEqual(address);
  }
});

test("a base domain with a port is met with that port only", () => {
  const at = (host: string) => parseAddress({ path: "/k", host }, { domain: "localhost:8787" });
  expect(at("master.data.localhost:8787")).toEqual({
    level: "object",
    by: "host",
    bucket: "master.data",
    key: "k",
  });
  expect(at("master.data.localhost:9999")).toEqual({ level: "bucket", by: "path", bucket: "k" });
  expect(at("master.data.localhost")).toEqual({ level: "bucket", by: "path", bucket: "k" });
  expect(at("localhost:8787")).toEqual({ level: "bucket", by: "path", bucket: "k" });
});

const ID = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

test("a bucket stands for a branch, or with an id in any case or a tag before it for something that the branch shows", () => {
  expect(addressOf("master.data", "path")).toEqual({ branch: "master", repo: "data" });
  for (const word of [ID, ID.toLowerCase()]) {
    expect(addressOf(`${word}.Master.data`, "path")).toEqual({ view: ID, branch: "Master", repo: "data" });
  }
  expect(addressOf("V1_a.master.data", "path")).toEqual({ view: "V1_a", branch: "master", repo: "data" });
  // No ULID: the first character is above 7, one is left out of the alphabet, one is too many.
  for (const tag of [`8${ID.slice(1)}`, `${ID.slice(0, -1)}U`, `${ID}0`]) {
    expect(addressOf(`${tag}.master.data`, "path")).toEqual({ view: tag, branch: "master", repo: "data" });
  }
  // A branch may be named as a commit is.
  expect(addressOf(`${ID}.data`, "path")).toEqual({ branch: ID, repo: "data" });
});

test("a bucket without a dot is the branch master of that repo, in the path and as a host", () => {
  for (const by of ["path", "host"] as const) {
    expect(addressOf("data", by)).toEqual({ branch: "master", repo: "data" });
  }
  expect(addressOf("my--data_", "path")).toEqual({ branch: "master", repo: "my--data_" });
});

test.each(
  OWN_WORDS,
)("'%s' is a path of the gateway's own, and the answer says how to name the bucket", (word) => {
  expect(() => addressOf(word, "path")).toThrow(`master.${word}`);
  expect(addressOf(`master.${word}`, "path")).toEqual({ branch: "master", repo: word });
  expect(addressOf(word, "host")).toEqual({ branch: "master", repo: word });
});

test.each([
  "",
  ".master.data",
  `${ID}.master.data.more`,
  `${ID}..data`,
  `${ID}.master.`,
  "-x.master.data",
  "master.da$ta",
  "a b",
])("a bucket of another form stands for nothing: %s", (bucket) => {
  expect(() => addressOf(bucket, "path")).toThrow("'<x>.<branch>.<repo>'");
});

test.each([
  ["data", { branch: "master", repo: "data" }],
  ["dev--data", { branch: "dev", repo: "data" }],
  ["v1--dev--data", { view: "v1", branch: "dev", repo: "data" }],
  [`${ID.toLowerCase()}--dev--my-data`, { view: ID, branch: "dev", repo: "my-data" }],
  [`${"a".repeat(31)}--${"b".repeat(30)}`, { branch: "a".repeat(31), repo: "b".repeat(30) }],
  // Dotted hosts go on, with names that a label can't hold.
  ["a--b.data", { branch: "a--b", repo: "data" }],
  ["v1.dev.my_data", { view: "v1", branch: "dev", repo: "my_data" }],
])("the host's label %s stands for %o", (label, address) => {
  expect(addressOf(label, "host")).toEqual(address);
  if (!label.includes(".")) expect(hostLabel(address)).toBe(label);
});

test.each([
  "xn",
  "xn--data",
  "dev--xn",
  "a--b--c--d",
  "dev--",
  "--data",
  "dev---data",
  "data-",
  "my_data",
  `${"a".repeat(32)}--${"b".repeat(30)}`,
])("the host's label %s stands for nothing", (label) => {
  expect(() => addressOf(label, "host")).toThrow("names no bucket");
});

test.each([
  { repo: "a--b", branch: "master" },
  { repo: "a-", branch: "dev" },
  { repo: "data", branch: "Dev" },
  { repo: "my_data", branch: "master" },
  { repo: "xn", branch: "master" },
  { repo: "b".repeat(31), branch: "a".repeat(31) },
  { repo: "data", branch: "dev", view: "V1" },
])("no label stands for %o", (address) => {
  expect(hostLabel(address)).toBeUndefined();
});

test("every label that a bucket has leads back to it, and no two buckets share one", () => {
  const names = ["a", "a-b", "b", "master", "x1", "xn", "a--b", "b-", "B", "a_b"];
  const seen = new Map<string, string>();
  for (const repo of names) {
    for (const branch of names) {
      for (const view of [undefined, ID, ...names]) {
        const address = { repo, branch, ...(view !== undefined && { view }) };
        const label = hostLabel(address);
        if (label === undefined) continue;
        expect(parseHostLabel(label)).toEqual(address);
        expect(seen.get(label)).toBeUndefined();
        seen.set(label, JSON.stringify(address));
      }
    }
  }
  expect(seen.size).toBeGreaterThan(100);
});
