import { expect, test } from "vitest";
import { Simulation } from "./platform/simulation.ts";

const BUCKET = "master.photos";

test("an S3 client puts, reads, copies, lists and deletes by the Worker's entry, and a seed says when each is answered", async () => {
  expect(await answersOf(1)).toEqual(await answersOf(1));
  const long = "x".repeat(10_000);
  expect((await answersOf(2)).map(({ status, text }) => [status, text.slice(0, 10)])).toEqual([
    [200, ""],
    [200, long.slice(0, 10)],
    [200, expect.stringContaining("<?xml")],
    [200, expect.stringContaining("<?xml")],
    [204, ""],
    [404, expect.stringContaining("<?xml")],
  ]);
});

async function answersOf(seed: number) {
  const simulation = new Simulation({ seed });
  try {
    await simulation.as(() => simulation.branch(BUCKET).lifecycle.create());
    return await simulation.as(async () => {
      const answers: { at: number; status: number; text: string }[] = [];
      const body = new TextEncoder().encode("x".repeat(10_000));
      for (const request of [
        { method: "PUT", key: "a", body },
        { method: "GET", key: "a" },
        { method: "PUT", key: "b", headers: { "x-amz-copy-source": `/${BUCKET}/a` } },
        { method: "GET", query: { "list-type": "2" } },
        { method: "DELETE", key: "a" },
        { method: "GET", key: "a" },
      ]) {
        const answer = await simulation.s3({ bucket: BUCKET, ...request });
        answers.push({ at: simulation.world.now, status: answer.status, text: await answer.text() });
      }
      return answers;
    });
  } finally {
    simulation.close();
  }
}
