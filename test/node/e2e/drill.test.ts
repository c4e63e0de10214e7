// @module-tag rest
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { healthy, ROOT, sluiceCommand } from "../../support/dev-server.ts";
import { freePort } from "../../support/ports.ts";
import { mustRun, type Started, start } from "../../support/processes.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";

/** The drill of docs/durability.md, as somebody types it whose gateway keeps its own key in its folder. */

const folder = scratchFolder();
const home = scratchFolder();
/** An empty home, and keys of AWS as many have them in their shell. */
const env = {
  HOME: home,
  AWS_ACCESS_KEY_ID: "AKIAIOSFODNN7EXAMPLE",
  AWS_SECRET_ACCESS_KEY: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  AWS_REGION: "eu-central-1",
  NODE_COMPILE_CACHE: join(ROOT, "node_modules/.cache/compiled"),
};
/** What `eval "$(sluice env)"` of a gateway that is no more has left in the shell. */
const LEFT_OVER = {
  SLUICE_ENDPOINT: "http://127.0.0.1:9",
  SLUICE_ACCESS_KEY_ID: "SLUICE0000000000GONE",
  SLUICE_SECRET_ACCESS_KEY: "a-secret-of-a-gateway-that-is-no-more",
};
let port = 0;
let gateway: Started | undefined;

beforeAll(async () => {
  port = await freePort();
  await startGateway();
});
afterAll(async () => {
  await gateway?.stop();
  removeScratch(folder);
  removeScratch(home);
});

test("the drill brings back what was backed up: after a lost D1, then after a lost folder", async () => {
  const blocks = commandsUnder("## The drill");
  const [unset = "", ...others] = blocks;
  const [setUp = "", backUp = "", loseD1 = "", rebuild = "", loseAll = "", restore = "", compare = ""] =
    others;
  expect(others).toHaveLength(7);
  const type = (lines: string): Promise<string> => typed(`${unset}\n${lines}`);
  await type(setUp);
  await type("sluice mb s3://master.other");
  await type(backUp);

  await gateway?.stop();
  await type(loseD1);
  await startGateway();
  // Reads and writes go on without the catalogue; lists come back with it.
  expect(await type("sluice repo list --json")).toContain('"repos":[]');
  expect(await type("sluice cat s3://master.drill/a.txt")).toBe("second\n");
  await type("sluice cp a.txt s3://master.other/meanwhile");
  expect(await type("sluice cat s3://master.other/meanwhile")).toBe("second\n");
  expect(await type(rebuild)).toMatch(/the catalogue knows of \d+ branches/);
  expect(await type("sluice ls")).toMatch(/master\.drill.*\n.*master\.other/);
  expect(await type(compare)).toBe("");

  await gateway?.stop();
  const before = rootKeyId();
  await type(loseAll);
  await startGateway();
  expect(rootKeyId()).not.toBe(before);
  expect(await type("sluice pipeline list --json")).toContain('"pipelines":[]');
  await type(restore);
  expect(await type(compare)).toBe("");
}, 180_000);

function typed(lines: string): Promise<string> {
  const script = `sluice() { ${sluiceCommand([]).join(" ")} "$@"; }\n${lines}`;
  return mustRun(["bash", "-euo", "pipefail", "-c", script], { env: { ...env, ...LEFT_OVER }, cwd: folder });
}

async function startGateway(): Promise<void> {
  gateway = start(sluiceCommand(["dev", "--port", String(port)]), { env, cwd: folder });
  await healthy(`http://127.0.0.1:${port}`, gateway);
}

function rootKeyId(): string {
  return JSON.parse(readFileSync(join(folder, ".sluice/root-key.json"), "utf8")).accessKeyId;
}

/** The shell blocks of a section of the page. */
function commandsUnder(heading: string): string[] {
  const page = readFileSync(join(ROOT, "docs/durability.md"), "utf8");
  const section = page.split(/^(?=## )/m).find((part) => part.startsWith(`${heading}\n`)) ?? "";
  return [...section.matchAll(/^```sh .*\n([\s\S]*?)^```$/gm)].map((match) => match[1] ?? "");
}
