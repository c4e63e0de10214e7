import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ROOT } from "../../support/dev-server.ts";
import { mustRun, run } from "../../support/processes.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";

const UNIT = readFileSync(join(ROOT, "deploy/systemd/sluice-runner.service"), "utf8");
const GATEWAY = readFileSync(join(ROOT, "deploy/systemd/sluice.service"), "utf8");
const SLUICE = "/usr/local/bin/sluice";

let folder: string;
beforeAll(() => {
  folder = scratchFolder();
});
afterAll(() => removeScratch(folder));

const ANALYZE = await run(["systemd-analyze", "--version"]).then(
  ({ code }) => code === 0,
  () => false,
);

/** What systemd has to say against a unit; it wants the program to be there. */
async function complaintsAbout(unit: string): Promise<string> {
  const file = join(folder, "sluice-runner.service");
  writeFileSync(file, unit.replace(SLUICE, process.execPath));
  const { stdout, stderr } = await run(["systemd-analyze", "verify", "--man=no", file]);
  return `${stdout}${stderr}`;
}

test.skipIf(!ANALYZE)("systemd has nothing to say against the units", REST, async () => {
  for (const unit of [UNIT, GATEWAY]) expect(await complaintsAbout(unit)).toBe("");
  // It would, though: it ends with 0 all the same where it only ignores a line.
  expect(await complaintsAbout(UNIT.replace("KillMode=", "KillMood="))).toContain("KillMood");
});

test("the unit starts the runner as the runner is started", async () => {
  const command = /^ExecStart=(.+)$/m.exec(UNIT)?.[1]?.split(" ") ?? [];
  expect(command.slice(0, 2)).toEqual([SLUICE, "runner"]);
  const help = await mustRun([process.execPath, join(ROOT, "bin/sluice.js"), "runner", "--help"]);
  for (const flag of command.filter((word) => word.startsWith("--"))) expect(help).toContain(`${flag} <`);
  const data = command[command.indexOf("--data") + 1];
  expect(UNIT).toContain(`WorkingDirectory=${data}\n`);
  expect(data).toBe(`/var/lib/${/^StateDirectory=(.+)$/m.exec(UNIT)?.[1]}`);
});

test("the gateway's unit starts it as it is started, with its data in the unit's own folder, on this machine alone", async () => {
  const command = /^ExecStart=(.+)$/m.exec(GATEWAY)?.[1]?.split(" ") ?? [];
  expect(command.slice(0, 2)).toEqual([SLUICE, "dev"]);
  const help = await mustRun([process.execPath, join(ROOT, "bin/sluice.js"), "dev", "--help"]);
  for (const flag of command.filter((word) => word.startsWith("--"))) expect(help).toContain(`${flag} `);
  const folder = `/var/lib/${/^StateDirectory=(.+)$/m.exec(GATEWAY)?.[1]}`;
  expect(GATEWAY).toContain(`WorkingDirectory=${folder}\n`);
  expect(command[command.indexOf("--data") + 1]).toBe(`${folder}/data`);
  expect(command).not.toContain("--host");
  // What lets its commands run, and its data be nobody else's, is as in the other.
  const protecting = (unit: string) => unit.slice(unit.indexOf("# The limits of single workers"));
  expect(protecting(GATEWAY)).toBe(protecting(UNIT));
  expect(GATEWAY).not.toMatch(/^Environment=.*KEY/m);
});

test("the unit says how commands run: in containers, with the group that may use the engine", () => {
  expect(UNIT).toMatch(/^ExecStart=.* runner --executor docker /m);
  expect(UNIT).toContain("\nSupplementaryGroups=docker\n");
});

test("the unit lets commands have what they need, and the runner drain", () => {
  for (const line of ["Delegate=yes", "KillMode=mixed", "Restart=always", "NoNewPrivileges=yes"]) {
    expect(UNIT).toContain(`\n${line}\n`);
  }
  // Each of these masks parts of /proc or forbids what bubblewrap does: no command would start.
  const harmful =
    /^(RestrictNamespaces|ProtectKernelTunables|ProtectKernelLogs|ProtectProc|ProtectControlGroups|SystemCallFilter|PrivateUsers|MemoryDenyWriteExecute)=/m;
  expect(UNIT).not.toMatch(harmful);
});

test("no key is in the unit: it comes from a file that root alone reads", () => {
  expect(UNIT).toContain("\nEnvironmentFile=/etc/sluice/runner.env\n");
  expect(UNIT).not.toMatch(/^Environment=.*KEY/m);
});
