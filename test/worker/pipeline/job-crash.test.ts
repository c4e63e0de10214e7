import { beforeAll, describe, it } from "vitest";
import { sampled } from "../../support/suite.ts";
import { LIFE_OF_A_JOB } from "./fault-points.ts";
import { killedAt, shortenPauses } from "./faults.ts";
import { begin, commitSurely, expectWhole, workUntil } from "./job-life.ts";

beforeAll(shortenPauses);

let lives = 0;

describe("a gateway that is killed in the life of a job", () => {
  for (const [point, options] of sampled(LIFE_OF_A_JOB, { every: 36 })) {
    it(`${point.at}, makes that job once and right, and the next one`, options, async () => {
      const name = `life-${++lives}`;
      const life = await begin(name, { a: "1", k: "1" });
      const { gateway } = life;
      const work = async (): Promise<void> => {
        await commitSurely(life, { a: null, b: "2", c: "3" });
        await workUntil(life, { jobs: 2 });
      };
      await killedAt(name, { point, gateway, work });
      await workUntil(life, { jobs: 2 });
      const first = { state: "success", total: 2, processed: 2, skipped: 0, failed: 0 };
      const second = { state: "success", total: 3, processed: 2, skipped: 1, failed: 0 };
      await expectWhole(life, { files: { b: "2", c: "3", k: "1" }, jobs: [first, second] });

      await commitSurely(life, { a: "1" });
      await workUntil(life, { jobs: 3 });
      const third = { state: "success", total: 4, processed: 0, skipped: 4, failed: 0 };
      await expectWhole(life, { files: { a: "1", b: "2", c: "3", k: "1" }, jobs: [first, second, third] });
    });
  }
});
