import { describe, expect, test } from "vitest";
import { CommitDetail, CommitPage, DiffPage, type Maker, Provenance } from "../../../protocol/commits.ts";
import { Derived, FilePage } from "../../../protocol/files.ts";
import { LEASE_MS } from "../../../protocol/runner.ts";
import { REST } from "../../support/suite.ts";
import { type Command, commit, makePipeline, makeRepo, pathsOf, workUntil } from "../pipeline/support.ts";
import {
  api,
  commitFiles,
  contentOf,
  failed,
  good,
  makeBranch,
  paths,
  ROOT,
  testContext,
} from "./support.ts";

const UNKNOWN = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

async function filled(repo: string, ...commits: Record<string, string>[]): Promise<string[]> {
  const address = { repo, branch: "master" };
  await makeBranch(address);
  const ids: string[] = [];
  for (const files of commits) ids.push(await commitFiles(address, files));
  return ids;
}

function commitsOf(repo: string): string {
  return `GET /repos/${repo}/branches/master/commits`;
}

async function uploadTo(repo: string): Promise<string> {
  return (await good("POST /uploads", { body: { repo, branch: "master" } })).upload;
}

/** Runs the only datum of a pipeline's next job, which writes one small file. */
async function runOne(name: string, output: { path: string; text: string }): Promise<void> {
  const { id, bytes } = await contentOf(output.text);
  const pipeline = testContext().pipeline(name);
  for (;;) {
    const leased = await pipeline.leases.take({ node: "n1", worker: "w1", max: 1, waitMs: LEASE_MS });
    if (!leased.ok) throw new Error(leased.reason);
    const [datum] = leased.datums;
    if (!datum) continue;
    const branch = testContext().branch(leased.output);
    const opened = await branch.uploads.open({ lease: datum.lease });
    if (!opened.ok) throw new Error(opened.reason);
    const body = { kind: "inline" as const, bytes: Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0)) };
    await branch.uploads.add({ upload: opened.upload, contents: [{ ...id, body }] });
    const outputs = [{ path: output.path, ...id }];
    await pipeline.leases.finish({
      worker: "w1",
      outcomes: [
        {
          lease: datum.lease,
          state: "success",
          exitCode: 0,
          outputs,
          upload: opened.upload,
          millis: 1,
          ran: { executor: "process", image: null },
        },
      ],
    });
    await pipeline.jobs.wait({ id: datum.job, waitMs: LEASE_MS });
    return;
  }
}

/** Makes `master` of a repo out of an export of another one's. */
async function moved(from: string, to: string): Promise<void> {
  const source = `/repos/${from}/branches/master/exports`;
  const { export: id, branch } = await good(`POST ${source}`);
  const { commits } = await good(`GET ${source}/${id}/commits`);
  const { files, contents } = await good(`GET ${source}/${id}/files`);
  const target = `POST /repos/${to}/branches/master/imports`;
  const { name: _, ...head } = branch;
  const begun = await good(target, { body: { archive: "0".repeat(64), branch: head } });
  const pages = `${target}/${begun.import}`;
  await good(`${pages}/commits`, { body: { after: 0, commits } });
  await good(`${pages}/files`, { body: { after: { path: "", born: 0 }, files, contents } });
  const counts = { commits: commits.length, tags: 0, files: files.length };
  await good(`${pages}/finish`, { body: { counts } });
}

function spec(name: string, input: string): object {
  return {
    pipeline: { name },
    transform: { image: "busybox", cmd: ["true"] },
    inputs: [{ repo: { name: input }, glob: "/*" }],
  };
}

describe("the commits of a branch", () => {
  test("are listed newest first and in pages", async () => {
    const [first, second] = await filled("log", { a: "1" }, { a: "2", b: "1" });
    const page = CommitPage.parse(await good(`${commitsOf("log")}?limit=1`));
    expect(page).toMatchObject({
      commits: [{ id: second, parent: first, job: null, changes: { written: 2, ended: 1 } }],
      next: second,
    });
    expect(await good(`${commitsOf("log")}?after=${second}`)).toMatchObject({
      commits: [{ id: first, parent: null }],
      next: null,
    });
  });

  test("have a summary of what they changed, if that is asked", async () => {
    await filled("summed", { a: "1", b: "1" }, { a: "22" });
    const page = CommitPage.parse(await good(`${commitsOf("summed")}?summary=true`));
    expect(page.commits.map(({ summary }) => summary)).toEqual([
      { path: "a", added: 0, changed: 1, deleted: 0, bytes: 1 },
      { path: "a", added: 2, changed: 0, deleted: 0, bytes: 2 },
    ]);
    const plain = CommitPage.parse(await good(commitsOf("summed")));
    expect(plain.commits.map(({ summary }) => summary)).toEqual([undefined, undefined]);
  });

  test("tell who made them and what was said of them, in the list, of one, and beside a difference", async () => {
    const [first] = await filled("noted", { a: "1" });
    const said = { message: "spring", meta: { camera: "k7" } };
    const caller = { keyId: "the-key" };
    const { commit } = await good("POST /repos/noted/branches/master/commits", {
      body: { upload: await uploadTo("noted"), operations: [{ delete: "a" }], ...said },
      caller,
    });
    const noted = { key: "the-key", ...said };
    const page = CommitPage.parse(await good(commitsOf("noted")));
    expect(page.commits).toMatchObject([
      { id: commit, ...noted },
      { id: first, message: null, meta: {} },
    ]);
    expect(await good(`${commitsOf("noted")}/${commit}`)).toMatchObject(noted);
    expect(await good(`${commitsOf("noted")}/${commit}/diff`)).toMatchObject({ to: commit, ...noted });
  });

  const UNSAYABLE = [
    ["an empty message", { message: "" }, "message", "must not be empty"],
    ["a message of two lines", { message: "a\nb" }, "message", "control characters"],
    ["a name with a capital", { meta: { Run: "1" } }, "meta.Run", "lower-case"],
    ["a value that is none", { meta: { run: 7 } }, "meta.run", "string"],
    [
      "too much together",
      { message: "ä".repeat(1000), meta: { run: "x".repeat(46) } },
      "message",
      "2049 bytes together, names and values; at most 2048",
    ],
  ] as const;

  test("are not made with an annotation that no commit can keep: the field and the reason are named", async () => {
    await makeBranch({ repo: "unsaid", branch: "master" });
    const body = { upload: await uploadTo("unsaid"), operations: [{ delete: "a" }] };
    for (const [what, said, path, text] of UNSAYABLE) {
      for (const [line, more] of [
        ["POST /repos/unsaid/branches/master/commits", body],
        ["POST /repos/unsaid/branches/master/sessions", {}],
      ] as const) {
        const refused = await failed(line, { body: { ...more, ...said } });
        expect(refused, what).toMatchObject({
          status: 400,
          issues: [{ path, message: expect.stringContaining(text) }],
        });
      }
    }
  });

  test("are not there where the branch is not, or has no such commit", async () => {
    await filled("gone", { a: "1" });
    expect(await failed(commitsOf("never"))).toMatchObject({ status: 404, code: "NoSuchBranch" });
    expect(await failed(`${commitsOf("gone")}?after=${UNKNOWN}`)).toMatchObject({ code: "NoSuchCommit" });
    for (const rest of ["", "/diff", "/provenance?path=a"])
      expect(await failed(`${commitsOf("gone")}/${UNKNOWN}${rest}`)).toMatchObject({
        status: 404,
        code: "NoSuchCommit",
      });
    const [head] = (await good(commitsOf("gone"))).commits;
    expect(await failed(`${commitsOf("gone")}/${head.id}/diff?from=${UNKNOWN}`)).toMatchObject({
      status: 404,
    });
    expect(await failed(`${commitsOf("gone")}/${head.id}/provenance?path=b`)).toMatchObject({
      status: 404,
      code: "NotFound",
    });
  });

  test("are asked for within bounds", async () => {
    const [id] = await filled("bounds", { a: "1" });
    for (const query of ["limit=0", "limit=1001", "after=x", "summary=yes"])
      expect(paths(await failed(`${commitsOf("bounds")}?${query}`))).toEqual([query.split("=")[0]]);
    for (const query of ["limit=0", "from=x"])
      expect(paths(await failed(`${commitsOf("bounds")}/${id}/diff?${query}`))).toEqual([
        query.split("=")[0],
      ]);
    for (const query of ["path=", "path=a&limit=101"])
      expect(await failed(`${commitsOf("bounds")}/${id}/provenance?${query}`)).toMatchObject({ status: 400 });
    expect(paths(await failed(`${commitsOf("bounds")}/${id}/provenance`))).toEqual(["path"]);
  });
});

describe("a difference", () => {
  test("is from the parent, or from the commit that is named, and in pages", async () => {
    const [first, , last] = await filled("diff", { a: "1" }, { b: "1" }, { a: "2", c: "1" });
    const own = DiffPage.parse(await good(`${commitsOf("diff")}/${last}/diff`));
    expect(own.changes.map(({ change, path }) => [change, path])).toEqual([
      ["changed", "a"],
      ["added", "c"],
    ]);
    const page = await good(`${commitsOf("diff")}/${last}/diff?from=${first}&limit=2`);
    expect(page).toMatchObject({ from: first, to: last, changes: [{ path: "a" }, { path: "b" }], next: "b" });
    const rest = await good(`${commitsOf("diff")}/${last}/diff?from=${first}&limit=2&after=b`);
    expect(rest).toMatchObject({ changes: [{ path: "c", before: null }], next: null });
    const back = await good(`${commitsOf("diff")}/${first}/diff?from=${last}`);
    expect(back.changes).toMatchObject([{ change: "changed" }, { change: "deleted" }, { change: "deleted" }]);
    expect(await good(`${commitsOf("diff")}/${first}/diff`)).toMatchObject({
      from: null,
      changes: [{ path: "a" }],
    });
  });
});

describe("an output commit", () => {
  test("leads to its job, to what that read, and each file to its datums and their inputs", async () => {
    const [input] = await filled("prov-in", { "a.txt": "1" });
    await good("POST /pipelines", { body: spec("prov", "prov-in") });
    await good("POST /pipelines", { body: spec("next", "prov") });
    await runOne("prov", { path: "a.out", text: "x" });
    await runOne("next", { path: "b.out", text: "y" });
    const [head] = CommitPage.parse(await good(commitsOf("next"))).commits;
    const detail = CommitDetail.parse(await good(`${commitsOf("next")}/${head?.id}`));
    expect(detail).toMatchObject({
      pipeline: "next",
      job: expect.any(String),
      inputs: [{ name: "prov", repo: "prov", branch: "master" }],
    });
    expect(await good(`${commitsOf("next")}/${head?.id}/diff`)).toMatchObject({ job: detail.job });
    const made = Provenance.parse(await good(`${commitsOf("next")}/${head?.id}/provenance?path=b.out`));
    expect(made).toMatchObject({ job: detail.job, datums: [{ state: "success", exitCode: 0, node: "n1" }] });
    // Upstream, by what the answers say alone.
    const up = (made.datums[0] as Maker).inputs[0];
    expect(up).toMatchObject({ repo: "prov", path: "a.out", kind: "file", commit: detail.inputs[0]?.commit });
    const source = await good(`${commitsOf("prov")}/${up?.commit}/provenance?path=${up?.path}`);
    expect(source.datums[0].inputs).toEqual([
      { name: "prov-in", repo: "prov-in", branch: "master", commit: input, path: "a.txt", kind: "file" },
    ]);
    expect(await good(`${commitsOf("prov-in")}/${input}/provenance?path=a.txt`)).toEqual({
      path: "a.txt",
      job: null,
      datums: [],
      next: null,
    });
    expect(await good(`${commitsOf("prov-in")}/${input}`)).toMatchObject({
      job: null,
      pipeline: null,
      inputs: [],
    });
  });

  test("of a pipeline that was deleted still names its job, and says that more is kept no more", async () => {
    await filled("old-in", { a: "1" });
    await good("POST /pipelines", { body: spec("old", "old-in") });
    await runOne("old", { path: "a.out", text: "x" });
    await good("DELETE /pipelines/old?keepOutput=true");
    const [head] = CommitPage.parse(await good(commitsOf("old"))).commits;
    const detail = await good(`${commitsOf("old")}/${head?.id}`);
    expect(detail).toMatchObject({ job: head?.job, pipeline: "old", inputs: [{ repo: "old-in" }] });
    const error = await failed(`${commitsOf("old")}/${head?.id}/provenance?path=a.out`);
    expect(error).toMatchObject({ status: 409, code: "NotKept" });
    expect(error.message).toContain("the pipeline of the job");
  });

  test("that was imported into another repo tells of its job only to those who may read the pipeline's repo", async () => {
    await filled("brought-in", { a: "1" });
    await good("POST /pipelines", { body: spec("brought", "brought-in") });
    await runOne("brought", { path: "a.out", text: "x" });
    await moved("brought", "brought-to");
    const [head] = CommitPage.parse(await good(commitsOf("brought-to"))).commits;
    const target = `${commitsOf("brought-to")}/${head?.id}`;
    // The catalogue hears of a job a moment later.
    await expect
      .poll(() => good(target))
      .toMatchObject({ job: head?.job, pipeline: "brought", inputs: [{ repo: "brought-in" }] });
    const caller = { scope: { level: "read", repos: ["brought-to"] } } as const;
    expect(await good(target, { caller })).toMatchObject({ job: head?.job, pipeline: null, inputs: [] });
  });
});

describe("the files of a commit", () => {
  test("may be those alone that were written after another one", async () => {
    const [first, , last] = await filled(
      "since",
      { a: "1", "d/a": "1" },
      { b: "1", "d/b": "1" },
      { a: "2", c: "1" },
    );
    const files = `${commitsOf("since")}/${last}/files`;
    const listed = async (query: string) =>
      FilePage.parse(await good(`${files}?${query}`)).files.map(({ path }) => path);
    expect(await listed(`since=${first}`)).toEqual(["a", "b", "c", "d/b"]);
    expect(await listed(`since=${first}&prefix=d/`)).toEqual(["d/b"]);
    expect(await listed(`since=${last}`)).toEqual([]);
    expect(await listed(`since=${first}&limit=2&after=a`)).toEqual(["b", "c"]);
    expect(await failed(`${files}?since=${UNKNOWN}`)).toMatchObject({ status: 404, code: "NoSuchCommit" });
    expect(paths(await failed(`${files}?since=x`))).toEqual(["since"]);
  });
});

const commitOf = (repo: string, id: string | undefined): string =>
  `GET /repos/${repo}/branches/master/commits/${id}`;

/** What was computed from a file: `<bucket>/<path>`, by the API's own pages. */
async function derived(repo: string, id: string | undefined, path: string): Promise<Derived> {
  const answer = Derived.parse(await good(`${commitOf(repo, id)}/derived?path=${encodeURIComponent(path)}`));
  expect(answer.next).toBe(null);
  return answer;
}

const namesOf = ({ files }: Derived): string[] => files.map(({ bucket, path }) => `${bucket}/${path}`);

describe("what was computed from a file", REST, () => {
  test("is told of the file as a commit has it, one step far, with the commit that has the output", async () => {
    await makeRepo("der-in");
    const first = await makePipeline({ name: "der-one", globs: { "der-in": "/*" } });
    await makePipeline({ name: "der-all", globs: { "der-in": "/" } });
    const second = await makePipeline({ name: "der-two", globs: { in: "/*" }, repos: { in: "der-one" } });
    const copy: Command = (datum) => ({ [`${pathsOf(datum)[0]}.out`]: datum.datum });
    const one = await commit("der-in", { a: "1", b: "1" });
    await workUntil(first, { jobs: 1, command: copy });
    await workUntil(second, { jobs: 1, command: copy });
    const two = await commit("der-in", { a: "2" });
    await workUntil(first, { jobs: 2, command: copy });
    const before = await derived("der-in", one, "a");
    const after = await derived("der-in", two, "a");
    expect([before, after].map(namesOf)).toEqual([["master.der-one/a.out"], ["master.der-one/a.out"]]);
    const [made] = before.files;
    expect(made?.commit).not.toBe(after.files[0]?.commit);
    // What has not changed is known of any commit that has it.
    expect((await derived("der-in", two, "b")).files).toEqual((await derived("der-in", one, "b")).files);
    // The next step, by what the answer says alone.
    expect(namesOf(await derived("der-one", made?.commit ?? "", "a.out"))).toEqual([
      "master.der-two/a.out.out",
    ]);
  });

  test("is told of those repos alone that the key may read", async () => {
    await makeRepo("der-secret");
    const pipeline = await makePipeline({ name: "der-out", globs: { "der-secret": "/*" } });
    const id = await commit("der-secret", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const target = `${commitOf("der-secret", id)}/derived?path=a`;
    const limited = { scope: { level: "read", repos: ["der-secret"] } } as const;
    expect((await good(target, { caller: limited })).files).toEqual([]);
    const both = { scope: { level: "read", repos: ["der-secret", "der-out"] } } as const;
    expect((await good(target, { caller: both })).files).toHaveLength(1);
  });

  test("goes on where a page ended, also if the pipeline of that page is gone, and takes no other place", async () => {
    await makeRepo("der-page");
    const pipeline = await makePipeline({ name: "der-paged", globs: { "der-page": "/*" } });
    const id = await commit("der-page", { a: "1" });
    await workUntil(pipeline, { jobs: 1 });
    const target = `${commitOf("der-page", id)}/derived?path=a&after=`;
    const from = (place: object): string => target + encodeURIComponent(JSON.stringify(place));
    const within = JSON.stringify({ path: "z", born: 0, key: "" });
    expect((await good(from({ pipeline: "der-paged", within: null }))).files).toHaveLength(1);
    expect((await good(from({ pipeline: "der-paged", within }))).files).toEqual([]);
    expect((await good(from({ pipeline: "der-gone", within }))).files).toHaveLength(1);
    expect((await good(from({ pipeline: "der-z", within: null }))).files).toEqual([]);
    for (const place of ["x", "{}", JSON.stringify({ pipeline: "der-paged", within: "{}" })]) {
      expect(await failed(target + encodeURIComponent(place))).toMatchObject({
        status: 400,
        issues: [{ path: "after" }],
      });
    }
  });

  test("is not told of a path that the commit does not have, nor of a commit that is not there", async () => {
    await makeRepo("der-none");
    const id = await commit("der-none", { a: "1" });
    expect(await failed(`${commitOf("der-none", id)}/derived?path=b`)).toMatchObject({ status: 404 });
    expect(await failed(`${commitOf("der-none", id)}/derived`)).toMatchObject({ issues: [{ path: "path" }] });
    const unknown = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    expect(await failed(`${commitOf("der-none", unknown)}/derived?path=a`)).toMatchObject({ status: 404 });
  });
});

describe("a commit that is redacted", () => {
  const annotation = { message: "for ada@example.org", meta: { ticket: "7" } };

  async function noted(repo: string): Promise<string> {
    const [commit = ""] = await filled(repo, { a: "1" });
    const body = { upload: await uploadTo(repo), operations: [{ delete: "a" }], ...annotation };
    const made = await good(`POST /repos/${repo}/branches/master/commits`, { body });
    expect(made.commit).not.toBe(commit);
    return made.commit;
  }

  test("shows who did it and when, in lists, by itself and in its difference; each has another ETag then", async () => {
    const commit = await noted("redacted");
    const of = `${commitsOf("redacted")}/${commit}`;
    const etagOf = async (target: string) => (await api(target)).headers.get("etag") ?? "";
    const asked = [commitsOf("redacted"), of];
    const etags = [await etagOf(commitsOf("redacted")), await etagOf(of)];
    const again = await Promise.all(
      asked.map((target, n) => api(target, { headers: { "if-none-match": etags[n] ?? "" } })),
    );
    expect(again.map(({ status }) => status)).toEqual([304, 304]);
    await good("PUT /repos/redacted/branches/master/tags/v1", { body: {} });
    const caller = { keyId: "boss", scope: { level: "admin", repos: ["redacted"] } } as const;
    const redact = "POST /repos/redacted/branches/master/commits/v1/redact";
    const done = await good(redact, { caller });
    const redacted = { at: expect.any(Number), by: "boss" };
    expect(done).toEqual({ commit, redacted, change: "redacted" });
    expect(await good(redact)).toEqual({ ...done, change: "none" });
    const shown = { key: ROOT.keyId, message: null, meta: {}, redacted: done.redacted };
    expect(CommitPage.parse(await good(commitsOf("redacted"))).commits[0]).toMatchObject({
      id: commit,
      ...shown,
    });
    expect(CommitDetail.parse(await good(of))).toMatchObject({ id: commit, ...shown });
    expect(DiffPage.parse(await good(`${of}/diff`))).toMatchObject({ to: commit, ...shown });
    for (const [n, target] of asked.entries()) {
      const fresh = await api(target, { headers: { "if-none-match": etags[n] ?? "" } });
      expect([fresh.status, fresh.headers.get("etag") === etags[n]]).toEqual([200, false]);
      expect(await fresh.text()).not.toContain("example.org");
    }
  });

  test("is so by keys of level admin alone, and of a protected branch by its writer", async () => {
    const commit = await noted("redact-levels");
    const redact = `POST /repos/redact-levels/branches/master/commits/${commit}/redact`;
    const scope = { level: "write", repos: ["redact-levels"] } as const;
    expect(await failed(redact, { caller: { keyId: "w", scope } })).toMatchObject({ code: "AccessDenied" });
    await testContext()
      .branch({ repo: "redact-levels", branch: "master" })
      .settings.change({ writer: { key: "mine" } });
    expect(await failed(redact)).toMatchObject({
      status: 403,
      code: "AccessDenied",
      message: expect.stringContaining("only the access key 'mine'"),
    });
    // Who writes to it, and no more, does not redact either.
    expect(await failed(redact, { caller: { keyId: "mine", scope } })).toMatchObject({
      code: "AccessDenied",
    });
    const caller = { keyId: "mine", scope: { level: "admin", repos: ["redact-levels"] } } as const;
    expect(await good(redact, { caller })).toMatchObject({ change: "redacted" });
  });

  test("must be there", async () => {
    await filled("redact-none", { a: "1" });
    for (const name of [UNKNOWN, "no-tag", "no.name"]) {
      expect(await failed(`POST /repos/redact-none/branches/master/commits/${name}/redact`)).toMatchObject({
        status: 404,
        code: "NoSuchCommit",
      });
    }
  });
});
