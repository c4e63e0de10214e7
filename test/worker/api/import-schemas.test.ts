import { describe, expect, test } from "vitest";
import { CommitPage } from "../../../protocol/commits.ts";
import { type Archive, BAD_ARCHIVES, commit, file, IDS, soundArchive } from "../../support/archive-cases.ts";
import { importArchive, type Outcome } from "./import-support.ts";
import { good } from "./support.ts";

let repos = 0;

function freshRepo(): string {
  return `schemas-${++repos}`;
}

async function refused(archive: Archive, pageRows = 1000): Promise<Extract<Outcome, { ok: false }>> {
  const outcome = await importArchive({ repo: freshRepo() }, archive, { pageRows });
  if (outcome.ok) throw new Error("the archive was taken");
  return outcome;
}

describe("what comes out of an archive could have been written", () => {
  test("a sound one is taken", async () => {
    const repo = freshRepo();
    expect(await importArchive({ repo }, soundArchive())).toEqual({ ok: true, head: IDS[3] });
    const page = CommitPage.parse(await good(`GET /repos/${repo}/branches/master/commits`));
    expect(page.commits.map(({ id }) => id)).toEqual([IDS[3], IDS[2], IDS[1]]);
  });

  test.each(BAD_ARCHIVES)("$what is refused, and the refusal says where and what to do", async ({
    archive,
    names,
  }) => {
    const { status, message, issues } = await refused(archive());
    expect({ status, message }).toEqual({ status: 400, message: expect.stringContaining(names) });
    expect(message).toContain("export the repo again");
    expect(issues).not.toEqual([]);
  });

  test("a file beside what is below it is refused, however the rows are spread over pages", async () => {
    for (const pageRows of [1, 2, 3]) {
      const archive = soundArchive();
      archive.commits = [commit(1, 2, 0), commit(2, 3, 1), commit(3, 4, 1)];
      archive.files = [file("a", 1, 2), file("a", 2, null), file("a-b", 1, null), file("a/x/y", 3, null)];
      const { status, step, message } = await refused(archive, pageRows);
      expect({ status, step }).toEqual({ status: 400, step: "files" });
      expect(message).toContain("'a/x/y' is below 'a'");
    }
  });

  test("a file that went before what is below it came is taken", async () => {
    const archive = soundArchive();
    archive.commits = [commit(1, 1, 0), commit(2, 2, 1), commit(3, 3, 2)];
    archive.tags = [];
    archive.files = [file("a", 1, 2), file("a", 3, null), file("a/x", 2, 3)];
    expect(await importArchive({ repo: freshRepo() }, archive, { pageRows: 1 })).toMatchObject({ ok: true });
  });

  test("the branch tells by whom it was imported, and its commits that they were", async () => {
    const repo = freshRepo();
    await importArchive({ repo }, soundArchive(), { call: { caller: { keyId: "SLUICEIMPORTER" } } });
    const detail = await good(`GET /repos/${repo}/branches/master`);
    expect(detail.imported).toEqual({ at: expect.any(Number), by: "SLUICEIMPORTER" });
    const { commits } = await good(`GET /repos/${repo}/branches/master/commits`);
    expect(commits.map(({ imported }: { imported?: true }) => imported)).toEqual([true, true, true]);
  });
});
