import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { readRuntimeConfig, startRuntime } from "../../../embedded/workerd/runtime.ts";
import { workerdEnvironment } from "../../../embedded/workerd/workerd.ts";
import { ROOT } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { freePort } from "../../support/ports.ts";
import { scratchFolder } from "../../support/scratch.ts";

/** Makes hundreds of MiB of short-lived objects, of which the newest few stay: V8 would enlarge its young generation for them. */
const GARBAGE = `
const kept = new Array(20_000);
export default {
  fetch() {
    for (let i = 0; i < 5_000_000; i++) kept[i % kept.length] = { i, next: [i, i + 1, i + 2, i + 3] };
    return new Response("done");
  },
};`;

test("no collection of short-lived objects looks through more than 2 MiB, and flags of V8 in the environment hold too", async () => {
  vi.stubEnv("MINIFLARE_WORKERD_V8_FLAGS", "--trace-gc");
  const folder = scratchFolder();
  const stateDir = join(folder, "state");
  mkdirSync(stateDir);
  const freedMiB: number[] = [];
  const keep = (line: string): void => {
    const [, before, after] = /Scavenge ([\d.]+) \([\d.]+\) -> ([\d.]+)/.exec(line) ?? [];
    if (before !== undefined) freedMiB.push(Number(before) - Number(after));
  };
  const listen = { host: "127.0.0.1", port: await freePort() };
  const runtime = await startRuntime({
    ...readRuntimeConfig(join(ROOT, "wrangler.toml")),
    code: GARBAGE,
    stateDir,
    workerdEnv: workerdEnvironment(folder),
    bindings: {},
    objectClasses: [],
    listen,
    log: { debug: keep, info: keep, warn: keep, error: keep },
  });
  try {
    const answer = await fetch(`http://${listen.host}:${listen.port}`);
    expect(await answer.text()).toBe("done");
    const freed = () => freedMiB.reduce((sum, each) => sum + each, 0);
    await eventually("garbage is seen to go", () => freed() > 100);
    expect(Math.max(...freedMiB)).toBeLessThan(2.2);
  } finally {
    await runtime.dispose();
    vi.unstubAllEnvs();
  }
});
