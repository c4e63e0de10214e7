import { expect, test } from "vitest";
import { PipelineSpec } from "../../protocol/spec.ts";
import { NO_FAULTS } from "./platform/faults.ts";
import { Simulation } from "./platform/simulation.ts";

const INPUTS = ["first", "second"];
const SPEC = PipelineSpec.parse({
  pipeline: { name: "both" },
  transform: { image: "none", cmd: ["v"] },
  inputs: INPUTS.map((name) => ({ repo: { name }, glob: "/*" })),
});
const HOUR_MS = 60 * 60_000;
const MINUTES = 10;

test("a pipeline that waits for a clock which was set back asks its inputs about once a second, however little they are apart", async () => {
  const waits: (string | null)[] = [];
  for (let seed = 0; seed < 10; seed++) {
    let asked = 0;
    const losesCall = (_: string, call: string) => {
      if (call === "feed.read") asked++;
      return false;
    };
    const simulation = new Simulation({ seed, faults: () => ({ ...NO_FAULTS, losesCall }) });
    let puts = 0;
    const put = (repo: string) => {
      const body = new Uint8Array([++puts]);
      return simulation.s3({ method: "PUT", bucket: `master.${repo}`, key: "a", body });
    };
    await simulation.as(async () => {
      for (const repo of INPUTS) {
        await simulation.branch(`master.${repo}`).lifecycle.create();
        await put(repo);
      }
      await simulation.pipeline("both").lifecycle.create(SPEC, { limited: false });
    });
    await simulation.pass(1_000);
    // A pull reads both, and then the first one has another commit before the next pull.
    await simulation.as(async () => {
      await put("second");
      await put("first");
    });
    simulation.world.setClock(-HOUR_MS);
    asked = 0;
    await simulation.pass(MINUTES * 60_000);
    expect(asked).toBeLessThan(1.5 * INPUTS.length * MINUTES * 60);
    const found = await simulation.as(() => simulation.pipeline("both").lifecycle.inspect());
    waits.push(found.ok ? found.pipeline.reason : null);
    simulation.close();
  }
  expect(waits).toContainEqual(expect.stringContaining("a clock was set back"));
});
