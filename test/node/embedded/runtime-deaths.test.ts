// @module-tag rest
import { chmodSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startDevServer } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";

const miniflare = createRequire(createRequire(import.meta.url).resolve("miniflare"));
const workerd: { default: string } = miniflare("workerd");

test("a runtime that died and can't be started again is tried until it can, and nothing is lost", async () => {
  const folder = scratchFolder();
  const [program, broken] = [join(folder, "workerd"), join(folder, "broken")];
  writeFileSync(program, `#!/bin/sh\n[ -e '${broken}' ] && exit 1\nexec '${workerd.default}' "$@"\n`);
  chmodSync(program, 0o755);
  const server = await startDevServer({ variables: { MINIFLARE_WORKERD_PATH: program } });
  try {
    const s3 = new S3(server);
    await s3.createBucket("master.death");
    await s3.put("master.death", "a", "x".repeat(100_000));
    writeFileSync(broken, "");
    process.kill(Number(readFileSync(join(server.data, "workerd.pid"), "utf8")), "SIGKILL");
    const tries = () => server.output().split("the runtime can't be started, trying again").length - 1;
    await eventually("it was tried more than once", () => tries() > 1);
    rmSync(broken);
    await eventually("it runs again", async () => (await s3.get("master.death", "a"))?.length === 100_000);
    await s3.put("master.death", "b", "y");
    expect(await s3.keys("master.death")).toEqual(["a", "b"]);
    await eventually("the log tells", () => server.output().includes("the runtime runs again"));
  } finally {
    await server.stop({ mayHaveDied: true });
  }
});
