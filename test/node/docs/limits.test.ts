import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ROOT } from "../../support/dev-server.ts";

const PAGE = readFileSync(join(ROOT, "docs/limits.md"), "utf8");
const KIB = 1024;
const MIB = 1024 * KIB;

/** The numbers of a row, as they stand in the code: a constant, and in what the page counts it. */
const NUMBERS: Readonly<Record<string, readonly (readonly [file: string, name: string, unit: number])[]>> = {
  key: [["protocol/paths.ts", "MAX_PATH_BYTES", 1]],
  "number of a part": [["worker/s3/limits.ts", "MAX_PART_NUMBER", 1]],
  "parts that CompleteMultipartUpload names": [["worker/s3/limits.ts", "MAX_PART_NUMBER", 1]],
  "part, but for the last one": [["worker/s3/limits.ts", "MIN_PART_BYTES", MIB]],
  "form: what comes before its file": [["worker/s3/limits.ts", "MAX_FORM_FIELDS_BYTES", 1]],
  "form: time for that": [["worker/s3/limits.ts", "MAX_FORM_FIELDS_MS", 1000]],
  "tags of an object": [
    ["protocol/object-tags.ts", "MAX_OBJECT_TAGS", 1],
    ["protocol/object-tags.ts", "MAX_TAG_KEY", 1],
    ["protocol/object-tags.ts", "MAX_TAG_VALUE", 1],
  ],
  "user metadata": [["worker/s3/limits.ts", "MAX_METADATA_BYTES", KIB]],
  "page of a listing": [["worker/s3/limits.ts", "MAX_KEYS", 1]],
  DeleteObjects: [["worker/s3/limits.ts", "MAX_KEYS", 1]],
  "CORS rules of a branch": [
    ["worker/s3/limits.ts", "MAX_CORS_RULES", 1],
    ["worker/s3/limits.ts", "MAX_CORS_BYTES", KIB],
  ],
  "policy of a bucket": [["worker/s3/limits.ts", "MAX_POLICY_BYTES", KIB]],
  "document of another setting of a bucket": [["worker/s3/limits.ts", "MAX_SETTING_BYTES", KIB]],
  "lifecycle rules of a branch": [["worker/s3/limits.ts", "MAX_LIFECYCLE_RULES", 1]],
  "clocks of client and gateway": [["worker/s3/auth/parse-authorization.ts", "MAX_SKEW_MS", 60_000]],
  "bytes that nothing names any more": [
    ["worker/branch/contents/pending-deletion-store.ts", "READERS_GRACE_MS", 1000],
    ["worker/branch/contents/pending-deletion-store.ts", "NAMELESS_GRACE_MS", 1000],
    ["worker/blobs/read/read-hold.ts", "HOLD_EVERY_MS", 1000],
  ],
  "what was erased, for the caches of nodes": [
    ["protocol/runner.ts", "ERASED_KEPT_MS", 24 * 60 * 60_000],
    ["protocol/runner.ts", "ERASED_SILENCE_MS", 1000],
  ],
  "sessions of the console of one key": [
    ["protocol/sessions.ts", "MAX_SESSIONS", 1],
    ["protocol/sessions.ts", "SESSION_MS", 60 * 60_000],
  ],
  "time after which a key expires (`--expires`)": [["protocol/key-expiry.ts", "MAX_DAYS", 1]],
  "presigned URL": [["worker/s3/auth/presigned.ts", "MAX_EXPIRES", 24 * 60 * 60]],
  "rows of a branch": [
    ["worker/objects/space.ts", "OBJECT_BYTES", 1e9],
    ["protocol/repos.ts", "TOLD_FROM", 0.01],
    ["worker/branch/ledger/ledger.ts", "FULL_AT", 0.01],
    ["worker/branch/ledger/ledger.ts", "CLOSED_AT", 0.01],
  ],
  "operations in one call of the control API": [["protocol/files.ts", "MAX_COMMIT_OPERATIONS", 1]],
  "fields of one object in a JSON body, such as the variables of `env`": [
    ["worker/api/routes.ts", "KEYS", 1],
  ],
  "problems of a body that are looked for": [["protocol/errors.ts", "MAX_PROBLEMS", 1]],
  "message and metadata of a commit": [["protocol/annotations.ts", "MAX_ANNOTATION_BYTES", 1]],
  "content that is kept in the rows": [
    ["protocol/content.ts", "INLINE_LIMIT_BYTES", KIB],
    ["worker/blobs/write-content.ts", "CHUNK_BYTES", MIB],
  ],
  "record of `cp --split`": [["cli/files/split/splitters.ts", "MAX_RECORD_BYTES", MIB]],
  "what `commit diff --text` compares by line, from the first difference of a file to the last": [
    ["cli/diff/text.ts", "MAX_TEXT_BYTES", MIB],
  ],
  "file that `commit diff --csv` compares by row, and its rows": [
    ["cli/diff/csv.ts", "MAX_CSV_BYTES", 1024 * MIB],
    ["cli/diff/rows.ts", "MAX_ROW_CHARACTERS", MIB],
  ],
  specification: [["worker/api/pipelines/submission.ts", "MAX_SPEC_BYTES", 1]],
  "versions of a specification that are kept": [
    ["worker/pipeline/lifecycle/version-store.ts", "KEPT_VERSIONS", 1],
    ["worker/pipeline/lifecycle/version-store.ts", "KEPT_VERSION_BYTES", MIB],
  ],
  "text of a specification": [
    ["protocol/spec-text.ts", "MAX_SPEC_TEXT_BYTES", 1],
    ["protocol/spec-text.ts", "MAX_SPEC_TEXT_MARKS", 1],
  ],
  "inputs of a pipeline": [["protocol/spec.ts", "MAX_INPUTS", 1]],
  glob: [["worker/core/glob.ts", "MAX_GLOB_CHARACTERS", 1]],
  "datums of a job with several inputs": [["protocol/pipeline-check.ts", "MAX_PAIRS", 1]],
  "what `pipeline check`, `update --plan` and the console count of inputs": [
    ["worker/api/pipelines/look.ts", "MAX_LOOK_CALLS", 1],
    ["worker/api/pipelines/look.ts", "PAGE_ENTRIES", 1],
    ["worker/api/pipelines/look.ts", "MAX_LOOK_MS", 1000],
  ],
  "what a plan of an update looks at one by one": [
    ["worker/api/pipelines/plan.ts", "MAX_PLANNED", 1],
    ["worker/api/pipelines/plan.ts", "MAX_FINGERPRINTS", 1],
  ],
  "files that one datum writes": [["protocol/runner.ts", "MAX_OUTPUTS_PER_DATUM", 1]],
  "runners of a datum that vanish": [["worker/pipeline/work/leases.ts", "MAX_LOSSES", 1]],
  "jobs that keep what they ran, datum by datum": [["worker/pipeline/jobs/job-store.ts", "KEPT_JOBS", 1]],
  "jobs that are looked through for a text (`search`)": [
    ["worker/api/jobs.ts", "SEARCHED_AT_ONCE", 1],
    ["protocol/pipelines.ts", "MAX_SEARCHED_JOBS", 1],
  ],
  "pipelines that one page of `…/commits/{id}/downstream` looks at": [
    ["worker/api/commits/downstream.ts", "MAX_READERS", 1],
    ["worker/api/commits/downstream.ts", "MAX_BEHIND", 1],
  ],
  "lease of a datum": [["protocol/runner.ts", "LEASE_MS", 1000]],
};

/** Rows whose numbers are part of something else than a constant of their own, which stands in the code as here. */
const TEXTS: Readonly<Record<string, readonly (readonly [file: string, text: string, shown: string])[]>> = {
  "names of repos, branches, tags, pipelines, inputs": [["protocol/names.ts", "{0,62}$", "63"]],
  "`datumTries`": [["protocol/spec.ts", ".max(100)", "100"]],
  "`datumTimeout`, `jobTimeout`": [["protocol/duration.ts", "24 * 24 * UNIT_MS.h", "576h"]],
  "logs of a datum": [["worker/pipeline/logs/log-store.ts", "DATUM_BYTES = 1024 * 1024;", "1 MiB"]],
  "logs of a pipeline": [
    ["worker/pipeline/logs/log-store.ts", "PIPELINE_BYTES = 256 * 1024 * 1024;", "256 MiB"],
  ],
  "jobs that are listed": [["protocol/settings.ts", ".default(10_000)", "10,000"]],
  "object, one PUT": [],
};

const ROWS = [...PAGE.matchAll(/^\| (?!what \||---)(.*) \|$/gm)].map(([, row = ""]) => row.split(" | "));

describe("a limit on docs/limits.md", () => {
  test("is in one of the tables of this test, and none is in them that is not on the page", () => {
    const known = [...Object.keys(NUMBERS), ...Object.keys(TEXTS)];
    expect(ROWS.map(([what]) => what).toSorted()).toEqual(known.toSorted());
  });

  test.each(ROWS)("%s: has the number that the code has", (what = "", limit = "") => {
    const shown = new Set(numbersIn(limit));
    for (const [file, name, unit] of NUMBERS[what] ?? [])
      expect(shown, `${name} of ${file}`).toContain(Math.round((constantOf(file, name) / unit) * 1e6) / 1e6);
    for (const [file, text, number] of TEXTS[what] ?? []) {
      expect(readFileSync(join(ROOT, file), "utf8"), file).toContain(text);
      expect(limit).toContain(number);
    }
  });

  test.each(
    ROWS,
  )("%s: names what is answered beyond it, and a test", (_what, _limit, beyond = "", named = "") => {
    expect(beyond).not.toBe("");
    expect(named).toMatch(/^\[test: \S+ ".+"\]$/);
  });
});

/** `1,024 bytes` has 1024. */
function numbersIn(text: string): number[] {
  return (text.match(/\d[\d,]*/g) ?? []).map((digits) => Number(digits.replaceAll(",", "")));
}

/** The value of a constant whose text is a product of numbers. */
function constantOf(file: string, name: string): number {
  const pattern = new RegExp(`\\bconst ${name} = ([^;]+);`);
  const [, product = ""] = pattern.exec(readFileSync(join(ROOT, file), "utf8")) ?? [];
  return product.split("*").reduce((value, factor) => value * Number(factor.trim().replaceAll("_", "")), 1);
}
