import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ROOT } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { type Started, start } from "../../support/processes.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";

/** Starts `npm run demo` with a folder of its own for temporary files, and an empty home. */
function startDemo(temporary: string): Started {
  const env = { TMPDIR: temporary, HOME: scratchFolder() };
  return start([process.execPath, join(ROOT, "scripts/demo.ts")], { env });
}

describe("the demo", { timeout: 120_000 }, () => {
  test("ends with 0 after a right report and one more datum, and leaves nothing behind", REST, async () => {
    const temporary = scratchFolder();
    const { code, stdout, stderr } = await startDemo(temporary).ended;
    const text = stdout.toString();
    expect(stderr).toBe("");
    expect(text).toMatch(/of profile: success, datums: 6 processed, 0 skipped, 0 failed of 6$/m);
    expect(text).toMatch(/of profile: success, datums: 1 processed, 6 skipped, 0 failed of 7$/m);
    expect(text).toMatch(/^7 files +15916$/m);
    expect(text.match(/the report agrees/g)).toHaveLength(2);
    expect(code).toBe(0);
    expect(readdirSync(temporary)).toEqual([]);
  });

  test("that is interrupted ends with 1 and leaves nothing behind either", REST, async () => {
    const temporary = scratchFolder();
    const demo = startDemo(temporary);
    await eventually("the demo puts files", () => demo.output().includes("put s3://"));
    demo.signal("SIGINT");
    const { code, stderr } = await demo.ended;
    expect(stderr).toContain("error: interrupted");
    expect(code).toBe(1);
    expect(readdirSync(temporary)).toEqual([]);
  });
});
