import fc from "fast-check";
import { soundArchive } from "../../support/archive-cases.ts";
import { spoiledValue, valueFor, type Words } from "../schema-values.ts";
import { oddText, spoiled } from "../text.ts";
import { FUZZED_ROUTES, type FuzzedRoute } from "./api-routes.ts";
import { KEYS } from "./documents.ts";
import { sha256 } from "./signing.ts";

/*
 * Requests to the control API: its routes, with bodies that the schemas of the wire take, or nearly. What stands in braces is of
 * the story that sends them (api-story.ts).
 */

export interface ApiAsk {
  /** Method and path, as the table has it. */
  readonly route: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: readonly (readonly [name: string, value: string])[];
  /** JSON, or what is meant to be. */
  readonly body: string | undefined;
  readonly auth: "root" | "reader" | "none" | "other-secret";
  /** The version of the wire that it says. */
  readonly wire: string | undefined;
}

/** A content that stories upload. */
export const ONE = { bytes: Buffer.from("one"), digest: sha256("one"), size: 3 };

/** What fields of bodies are, and parameters of paths, by their names. */
const WORDS: Words = {
  repo: ["{repo}"],
  branch: ["master", "dev"],
  name: ["{repo}", "{pipeline}", "dev", "new", "side"],
  pipeline: ["{pipeline}"],
  commit: ["{commit}", "{commit}", "v1"],
  version: ["{commit}"],
  ID: ["{commit}"],
  session: ["{session}"],
  upload: ["{upload}"],
  put: KEYS,
  delete: KEYS,
  path: KEYS,
  digest: [ONE.digest],
  size: [ONE.size],
  bytes: [ONE.bytes.toString("base64")],
  node: ["n1"],
  worker: ["w1"],
  lease: ["{lease}"],
  job: ["{job}"],
  key: ["{key}"],
  wait: ["none"],
  image: ["busybox"],
  glob: ["/*", "/", "/dir/*", "/**"],
  ttl: ["1h"],
  datumTimeout: ["30s"],
  jobTimeout: ["1h"],
  URL: ["s3://bucket/dir"],
  mountPath: ["/secret"],
  archive: ["0".repeat(64), "1".repeat(64)],
  createdAt: [1_704_067_200_000],
  level: ["read", "write", "list", "runner"],
  repos: [["{repo}"]],
};

const PARAMETERS: Readonly<Record<string, readonly string[]>> = {
  repo: ["{repo}"],
  branch: [...Array<string>(8).fill("master"), "dev", "new"],
  commit: ["{commit}", "{commit}", "v1", "{session}"],
  session: ["{session}"],
  tag: ["v1", "v2"],
  export: ["{export}"],
  import: ["{import}"],
  content: [`${ONE.digest}-${ONE.size}`, `${"0".repeat(64)}-1`],
  pipeline: ["{pipeline}"],
  version: ["1", "2"],
  job: ["{job}"],
  datum: ["{datum}"],
  upload: ["{upload}"],
  node: ["n1"],
  key: ["{key}"],
};

const QUERY: Readonly<Record<string, readonly string[]>> = {
  limit: ["1", "2", "100"],
  after: ["{next}"],
  path: KEYS,
  prefix: ["dir/", ""],
  delimiter: ["/"],
  times: ["true", "false"],
  summary: ["true", "false"],
  buckets: ["master.{repo}", "master.{repo},master.never"],
  from: ["{commit}", "v1"],
  since: ["{commit}", "0"],
  state: ["waiting", "success", "failed", "queued"],
  pipeline: ["{pipeline}"],
  branch: ["master"],
  node: ["n1"],
  wait: ["0", "1"],
  digest: [ONE.digest],
  size: [String(ONE.size)],
  datum: ["{datum}"],
  born: ["0", "1"],
  runs: ["1", "30"],
  search: ["f", ""],
  tail: ["1"],
  datums: ["failed", "all"],
};

const archive = soundArchive();
const IMPORT = "POST /repos/:repo/branches/:branch/imports";
const COMMITS = "POST /repos/:repo/branches/:branch/commits";

/** Bodies that only make sense as a whole: a client's, of a few routes. */
export const BODIES = {
  [IMPORT]: { body: { archive: "0".repeat(64), branch: archive.branch } },
  [`${IMPORT}/:import/commits`]: { body: { after: 0, commits: archive.commits } },
  [`${IMPORT}/:import/tags`]: { body: { after: "", tags: archive.tags } },
  [`${IMPORT}/:import/files`]: {
    body: { after: { path: "", born: 0 }, files: archive.files, contents: archive.contents },
  },
  [`${IMPORT}/:import/finish`]: { body: { counts: { commits: 3, tags: 1, files: 3 } } },
  [COMMITS]: {
    body: {
      upload: "{upload}",
      operations: [{ put: "a", digest: ONE.digest, size: 3 }, { delete: "b.txt" }],
    },
  },
  "POST /pipelines": {
    body: {
      pipeline: { name: "{pipeline}2" },
      transform: { image: "busybox", cmd: ["true"] },
      inputs: [{ repo: { name: "{repo}" }, glob: "/*" }],
    },
  },
  "POST /runner/finish": {
    body: {
      pipeline: "{pipeline}",
      worker: "w1",
      outcomes: [
        {
          lease: "{lease}",
          state: "success",
          exitCode: 0,
          outputs: [],
          millis: 1,
          ran: { executor: "process", image: null },
        },
      ],
    },
  },
} as Readonly<Record<string, { readonly body: unknown }>> &
  Readonly<Record<typeof IMPORT, { readonly body: unknown }>>;

/** Those by which most of a branch, a pipeline and its jobs comes about. */
const OFTEN = [
  "/commits",
  "/sessions",
  "/imports",
  "/exports",
  "/uploads",
  "/runner",
  "POST /pipelines",
  "/finish",
  "/erasures",
];

function paramsOf(path: string): fc.Arbitrary<Record<string, string>> {
  const names = [...path.matchAll(/:(\w+)/g)].map(([, name = ""]) => name);
  const values = names.map((name) =>
    fc.oneof(
      {
        weight: 30,
        arbitrary: fc.constantFrom(
          ...(path.includes("/imports") && name === "branch" ? ["new"] : (PARAMETERS[name] ?? ["x"])),
        ),
      },
      { weight: 1, arbitrary: fc.oneof(oddText, fc.constantFrom("nothing", "01BX5ZZKBKACTAV9WEVGEMMVRZ")) },
    ),
  );
  return fc
    .tuple(...values)
    .map((all) => Object.fromEntries(all.map((value, index) => [names[index], value])));
}

function queryOf({ query = [] }: FuzzedRoute): fc.Arbitrary<[string, string][]> {
  const known = query.map((name) =>
    fc
      .oneof(
        { weight: 12, arbitrary: fc.constantFrom(...(QUERY[name] ?? ["true", "false"])) },
        { weight: 1, arbitrary: oddText },
      )
      .map((value): [string, string] => [name, value]),
  );
  const must = new Set(["path", "digest", "size", "since"]);
  const some = known.map((pair, index) =>
    must.has(query[index] ?? "") ? pair : fc.option(pair, { nil: undefined, freq: 2 }),
  );
  const unknown = fc.oneof(
    { weight: 30, arbitrary: fc.constant(undefined) },
    { weight: 1, arbitrary: oddText.map((value): [string, string] => ["color", value]) },
  );
  return fc.tuple(...some, unknown).map((all) => all.filter((pair) => pair !== undefined));
}

function bodyOf(name: string, { body }: FuzzedRoute): fc.Arbitrary<string | undefined> {
  if (name === "PUT /uploads/:upload/contents") return fc.constantFrom("one", "one", "two!");
  if (body === undefined)
    return fc.oneof(
      { weight: 20, arbitrary: fc.constant(undefined) },
      { weight: 1, arbitrary: fc.constantFrom("{}", "[]", "x") },
    );
  const whole = BODIES[name];
  const made = valueFor(body, WORDS);
  const value = whole
    ? fc.oneof({ weight: 2, arbitrary: fc.constant(whole.body) }, { weight: 1, arbitrary: made })
    : made;
  return fc.oneof(
    { weight: 12, arbitrary: value.map(textOf) },
    { weight: 3, arbitrary: spoiledValue(value).map(textOf) },
    { weight: 1, arbitrary: spoiled(value.map(textOf)) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        undefined,
        "",
        "{",
        "[]",
        "null",
        `${"[".repeat(5000)}`,
        `{"a":${"[".repeat(50)}${"]".repeat(50)}}`,
        '{"__proto__":1}',
        "\ufeff{}",
        '{"a":1,"a":2}',
      ),
    },
  );
}

function textOf(value: unknown): string {
  return JSON.stringify(value) ?? "";
}

const auth = fc.oneof(
  { weight: 20, arbitrary: fc.constant<ApiAsk["auth"]>("root") },
  { weight: 1, arbitrary: fc.constantFrom<ApiAsk["auth"]>("reader", "none", "other-secret") },
);

export const apiAsk: fc.Arbitrary<ApiAsk> = fc.oneof(
  ...Object.entries(FUZZED_ROUTES).map(([name, fuzzed]) => ({
    weight: OFTEN.some((part) => name.includes(part)) && !name.startsWith("DELETE") ? 3 : 1,
    arbitrary: fc.record({
      route: fc.constant(name),
      params: paramsOf(name),
      query: queryOf(fuzzed),
      body: bodyOf(name, fuzzed),
      // It takes the gateway away for a while: nobody is to do it who may.
      auth: name === "POST /admin/scrub" ? fc.constant<ApiAsk["auth"]>("reader") : auth,
      wire: fc.oneof(
        { weight: 20, arbitrary: fc.constant(undefined) },
        { weight: 1, arbitrary: fc.constantFrom("3", "2", "99", "x", "") },
      ),
    }),
  })),
);
