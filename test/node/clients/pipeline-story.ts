import { expect } from "vitest";
import { Control } from "../../support/control.ts";
import { startRunner } from "../../support/dev-server.ts";
import type { Door } from "../../support/keys.ts";
import { S3 } from "../../support/s3.ts";

/** A pipeline runs over what was put through S3, and its output comes out by S3. */
export async function tellPipelineStory(door: Door): Promise<void> {
  const [s3, control] = [new S3(door), new Control(door)];
  await s3.createBucket("master.words");
  await s3.put("master.words", "one.txt", "to be or not to be\n");
  // Over 4 KiB and over one chunk, so that it goes through the blob store in both directions.
  const long = "word ".repeat(1_000_000);
  await s3.put("master.words", "long.txt", long);
  const runner = startRunner(door, { node: "words-node" });
  try {
    await control.createPipeline({
      pipeline: { name: "upper" },
      transform: {
        image: "busybox",
        cmd: ["sh"],
        stdin: ["for f in /pfs/words/*; do", "  tr a-z A-Z < $f > /pfs/out/$(basename $f)", "done"],
      },
      inputs: [{ repo: { name: "words" }, glob: "/*" }],
    });
    const [job] = await control.ended("upper", { count: 1 });
    expect(job).toMatchObject({
      state: "success",
      datums: { total: 2, processed: 2, skipped: 0, failed: 0 },
    });
    expect(await s3.keys("master.upper")).toEqual(["long.txt", "one.txt"]);
    expect((await s3.get("master.upper", "one.txt"))?.toString()).toBe("TO BE OR NOT TO BE\n");
    expect((await s3.get("master.upper", "long.txt"))?.toString()).toBe(long.toUpperCase());
  } finally {
    await runner.stop();
  }
}
