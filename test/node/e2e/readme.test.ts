// @module-tag rest
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AWS, hasAws } from "../../support/clients/aws-api.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, ROOT, startDevServer, startRunner } from "../../support/dev-server.ts";
import { doorVariables } from "../../support/keys.ts";
import { mustRun, type Started } from "../../support/processes.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

let server: DevServer;
let runner: Started;
beforeAll(async () => {
  server = await startDevServer();
  runner = startRunner(server, { node: "by-hand" });
});
afterAll(async () => {
  await runner?.stop();
  await server?.stop();
});

test.skipIf(!(await hasAws()))(
  "what the README tells a newcomer to type works as it stands there",
  async () => {
    const folder = scratchFolder();
    // `npx sluice` as in a clone, but from a folder where the files that it tells to write do no harm.
    mkdirSync(join(folder, "node_modules/.bin"), { recursive: true });
    symlinkSync(join(ROOT, "bin/sluice.js"), join(folder, "node_modules/.bin/sluice"));
    writeFileSync(join(folder, "package.json"), "{}");
    const env = {
      ...doorVariables(server),
      HOME: folder,
      PATH: `${dirname(AWS)}:${process.env.PATH}`,
      AWS_EC2_METADATA_DISABLED: "true",
    };
    const type = (lines: string): Promise<string> =>
      mustRun(["bash", "-euo", "pipefail", "-c", lines], { env, cwd: folder });

    const [start = "", ...rest] = commandsUnder("## By hand");
    expect(start.trim()).toBe("npx sluice dev");
    const script = rest.join("\n");
    // Between what makes the job and what looks at it, a person takes a moment.
    const look = script.indexOf("npx sluice job list");
    const setUp = script.slice(0, look);
    await type(setUp);
    await new Control(server).ended("count", { count: 1 });
    const exports = setUp.slice(0, setUp.indexOf("\n"));
    const printed = await type(`${exports}\n${script.slice(look)}`);
    expect(printed).toMatch(/success/);
    expect(printed.trimEnd()).toMatch(/\b6$/);
    const more = commandsUnder("## Many files as one commit").join("\n");
    expect(await type(`${exports}\n${more}`)).toMatch(/texts.*hamlet\.txt/);
    removeScratch(folder);
  },
);

/** The shell blocks of a section of the README. */
function commandsUnder(heading: string): string[] {
  const readme = readFileSync(join(ROOT, "README.md"), "utf8");
  const section = readme.split(/^(?=## )/m).find((part) => part.startsWith(`${heading}\n`)) ?? "";
  return [...section.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? "");
}
