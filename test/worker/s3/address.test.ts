import { expect, test } from "vitest";
import { addressOf, parseAddress } from "../../../worker/s3/request/address.ts";

const PATHS = [
  ["/", { level: "service" }],
  ["/b.r", { level: "bucket", bucket: "b.r" }],
  ["/b.r/", { level: "bucket", bucket: "b.r" }],
  ["/b.r/k", { level: "object", bucket: "b.r", key: "k" }],
  ["/b.r/k/l/", { level: "object", bucket: "b.r", key: "k/l/" }],
  ["/b.r//k", { level: "object", bucket: "b.r", key: "/k" }],
  ["//k", { level: "object", bucket: "", key: "k" }],
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
  ["/", { level: "bucket", bucket: "master.data" }],
  ["/k", { level: "object", bucket: "master.data", key: "k" }],
  ["/b.r/k/", { level: "object", bucket: "master.data", key: "b.r/k/" }],
  ["//k", { level: "object", bucket: "master.data", key: "/k" }],
  ["/api/v1/keys", { level: "object", bucket: "master.data", key: "api/v1/keys" }],
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
  expect(at("master.data.localhost:8787")).toEqual({ level: "object", bucket: "master.data", key: "k" });
  expect(at("master.data.localhost:9999")).toEqual({ level: "bucket", bucket: "k" });
  expect(at("master.data.localhost")).toEqual({ level: "bucket", bucket: "k" });
  expect(at("localhost:8787")).toEqual({ level: "bucket", bucket: "k" });
});

const SESSION = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

test("a bucket stands for a branch, or with a session in any case for one of its open commits", () => {
  expect(addressOf("master.data")).toEqual({ branch: "master", repo: "data" });
  for (const word of [SESSION, SESSION.toLowerCase()]) {
    expect(addressOf(`${word}.Master.data`)).toEqual({ session: SESSION, branch: "Master", repo: "data" });
  }
  // A branch may be named as a session is.
  expect(addressOf(`${SESSION}.data`)).toEqual({ branch: SESSION, repo: "data" });
});

test.each([
  "",
  "data",
  ".master.data",
  `${SESSION}.master`.concat(".data.more"),
  `${SESSION}0.master.data`,
  `8${SESSION.slice(1)}.master.data`,
  `${SESSION.slice(0, -1)}U.master.data`,
  `${SESSION}..data`,
  `${SESSION}.master.`,
])("a bucket of another form stands for nothing: %s", (bucket) => {
  expect(() => addressOf(bucket)).toThrow("'<session>.<branch>.<repo>'");
});
