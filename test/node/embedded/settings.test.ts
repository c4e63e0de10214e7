import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { keptEncryptionKey } from "../../../embedded/data/keys.ts";
import { readSettings } from "../../../embedded/settings.ts";
import { ROOT } from "../../support/dev-server.ts";
import { run } from "../../support/processes.ts";
import { scratchFolder } from "../../support/scratch.ts";

const key = Buffer.alloc(32, 7).toString("base64");

describe("the gateway's variables", () => {
  test("are taken from the environment as they are, where they are set", () => {
    const env = {
      SLUICE_ENCRYPTION_KEY: key,
      SLUICE_DOMAIN: "s3.example.com:8787",
      SLUICE_UPLOAD_DAYS: "0.5",
      SLUICE_LAST_MODIFIED: "object",
      SLUICE_DISK_ENCRYPTED: "on",
      SLUICE_KEEP: "commits:100,days:30",
      SLUICE_DELETE: "empty-only",
      SLUICE_SYNC: "off",
    };
    expect(readSettings({ ...env, SLUICE_LOG: "info", PATH: "/bin" })).toEqual({ ok: true, settings: env });
    expect(readSettings({ SLUICE_DOMAIN: "", PATH: "/bin" })).toEqual({ ok: true, settings: {} });
  });

  test.each([
    [
      "SLUICE_DOMAIN",
      "S3.Example.com",
      "SLUICE_DOMAIN is 'S3.Example.com': it must be a host name in lower case",
    ],
    ["SLUICE_UPLOAD_DAYS", "never", "SLUICE_UPLOAD_DAYS is 'never': it must be a number of days above 0"],
    ["SLUICE_KEEP_JOBS", "0", "SLUICE_KEEP_JOBS is '0': it must be a whole number above 0"],
    ["SLUICE_KEEP_JOBS", "1.5", "SLUICE_KEEP_JOBS is '1.5': it must be a whole number above 0"],
    ["SLUICE_UPLOAD_DAYS", "-1", "SLUICE_UPLOAD_DAYS is '-1': it must be a number of days above 0"],
    ["SLUICE_DISK_ENCRYPTED", "yes", "SLUICE_DISK_ENCRYPTED is 'yes': it must be 'on' or 'off'"],
    ["SLUICE_LAST_MODIFIED", "file", "SLUICE_LAST_MODIFIED is 'file': it must be 'branch' or 'object'"],
    ["SLUICE_SYNC", "never", "SLUICE_SYNC is 'never': it must be 'on' or 'off'"],
    ["SLUICE_DELETE", "never", "SLUICE_DELETE is 'never': it must be 'any' or 'empty-only'"],
  ])("that can't be are named with what they hold and what they must be: %s=%s", (name, value, problem) => {
    expect(readSettings({ [name]: value })).toEqual({ ok: false, problem });
  });

  test.each([
    ...["100", "commits", "commits:0", "commits:1.5", "days:36501", "weeks:1", "commits:1,"],
    ...["days:1,days:2", "all,days:1", "commits:1 ", "__proto__:1"],
  ])("that say how much of a history stays are of few forms: SLUICE_KEEP=%s", (value) => {
    const says =
      "must be 'all', 'commits:<n>', 'days:<n>', or the last two with a comma between, each of at least 1";
    const problem = `SLUICE_KEEP is '${value}': it ${says}`;
    expect(readSettings({ SLUICE_KEEP: value })).toEqual({ ok: false, problem });
  });

  test("that are secret are named without what they hold", () => {
    const problem = "SLUICE_ENCRYPTION_KEY must be the base64 of 32 bytes";
    expect(readSettings({ SLUICE_ENCRYPTION_KEY: "hunter2" })).toEqual({ ok: false, problem });
  });

  test("that can't be end `sluice dev` with 2 before it touches anything", async () => {
    const cwd = scratchFolder();
    const command = [process.execPath, join(ROOT, "bin/sluice.js"), "dev", "--port", "0"];
    const { code, stderr } = await run(command, { cwd, env: { SLUICE_UPLOAD_DAYS: "0" } });
    expect(stderr).toBe("error: SLUICE_UPLOAD_DAYS is '0': it must be a number of days above 0\n");
    expect(code).toBe(2);
  });
});

describe("the encryption key of a data folder", () => {
  test("stays, and is each folder's own", () => {
    const [one, two] = [scratchFolder(), scratchFolder()];
    const first = keptEncryptionKey(one);
    expect(keptEncryptionKey(one)).toBe(first);
    expect(keptEncryptionKey(two)).not.toBe(first);
  });

  test.each([
    "",
    "{}",
    '{"encryptionKey":"short"}',
    "[]",
  ])("that is damaged (%s) is told, not replaced", (content) => {
    const folder = join(scratchFolder(), "data");
    mkdirSync(folder);
    const file = join(folder, "encryption-key.json");
    writeFileSync(file, content);
    expect(() => keptEncryptionKey(folder)).toThrow(`${file} does not hold a key`);
  });
});
