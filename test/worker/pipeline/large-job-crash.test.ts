// @module-tag rest
import { beforeAll, describe, expect, it, vi } from "vitest";
import { LIFE_OF_A_LARGE_JOB } from "./fault-points.ts";
import { insist, killedAt, shortenPauses } from "./faults.ts";
import { expectRest, type Life, workUntil } from "./job-life.ts";
import { Outside } from "./model/outside.ts";
import { allJobs, branchOf, type Command, commit, makeRepo, pathsOf, pipelineOf, specOf } from "./support.ts";

const FILES = 1200;
const OUTPUTS = 10_500;

beforeAll(() => {
  vi.setConfig({ testTimeout: 300_000 });
  shortenPauses();
});

let lives = 0;

/** One datum writes more than a commit takes at once, the others nothing. */
const command: Command = (datum) =>
  pathsOf(datum)[0] === "f0"
    ? Object.fromEntries(Array.from({ length: OUTPUTS }, (_, n) => [`out/${n % 100}/${n}`, `${n % 10}`]))
    : {};

async function makeLife(): Promise<Life> {
  const name = `large-${++lives}`;
  const repo = `${name}-in`;
  await makeRepo(repo);
  await commit(repo, Object.fromEntries(Array.from({ length: FILES }, (_, n) => [`f${n}`, "x"])));
  const gateway = { input: { repo, branch: "master" }, output: { repo: name, branch: "master" } };
  return { name, gateway, outside: new Outside(), command, max: FILES };
}

async function countFiles({ gateway }: Life): Promise<number> {
  let count = 0;
  for (let after: string | null = ""; after !== null; ) {
    const page: Awaited<ReturnType<ReturnType<typeof branchOf>["files"]["list"]>> = await branchOf(
      gateway.output,
    ).files.list({
      prefix: "",
      after,
      limit: 1000,
    });
    if (!page.ok) throw new Error(page.reason);
    count += page.entries.length;
    after = page.next;
  }
  return count;
}

describe("a gateway that is killed in the life of a large job", () => {
  for (const point of LIFE_OF_A_LARGE_JOB) {
    it(`${point.at}, makes it once and whole`, async () => {
      const life = await makeLife();
      const { name, gateway } = life;
      const work = async (): Promise<void> => {
        const spec = specOf({ name, globs: { [gateway.input.repo]: "/*" } });
        await insist(async () => pipelineOf(name).lifecycle.create(spec));
        await workUntil(life, { jobs: 1 });
      };
      await killedAt(name, { point, gateway, work });
      await workUntil(life, { jobs: 1 });
      const jobs = await allJobs(pipelineOf(name));
      const counts = { total: FILES, processed: FILES, skipped: 0, failed: 0 };
      expect(jobs).toMatchObject([{ state: "success", datums: counts }]);
      const { events } = await branchOf(gateway.output).feed.read({
        cursor: { generation: 0, seq: 0 },
        limit: 1,
      });
      expect(events.map(({ id }) => id)).toEqual([jobs[0]?.outputCommit]);
      expect(await countFiles(life)).toBe(OUTPUTS);
      await expectRest(name);
    });
  }
});
