import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmod, mkdir, mkdtemp, readdir, readFile, realpath, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type Executor,
  type MountedSecret,
  NodeCondition,
  type Run,
  type Sandbox,
} from "../../../runner/executors/executor.ts";
import { readRootEntries } from "../../../runner/executors/process/machine.ts";
import { processExecutor } from "../../../runner/executors/process/process.ts";
import { type Runner, startRunner } from "../../../runner/main.ts";
import { removeTree } from "../../../runner/pfs/remove.ts";
import { DatumStage, JAILS } from "./support/datums.ts";
import { nobody, withoutPrivileges } from "./support/nobody.ts";
import { Stage } from "./support/running.ts";

const PATH = process.env.PATH ?? "/usr/bin:/bin";
const SANDBOX = join(import.meta.dirname, "support/sandbox-process.ts");

/** A name that is nowhere on this machine. */
const UNUSED = `sluice-test-${process.pid}-${randomBytes(4).toString("hex")}`;

function mounted(mountPath: string, keys: Record<string, string | Buffer>, name = "key"): MountedSecret {
  const secret = new Map(Object.entries(keys).map(([key, value]) => [key, Buffer.from(value)]));
  return { name, mountPath, secret };
}

for (const { name, options, find, absent } of JAILS) {
  describe(`secrets in the process executor with ${name}`, options, () => {
    const needs = test.skipIf(absent);
    /** Holds the other two: the node's data folder, and one that is none of its business. */
    let base: string;
    let dir: string;
    let outside: string;
    let executor: Executor;
    let sandbox: Sandbox;

    beforeEach(async () => {
      base = await realpath(await mkdtemp(join(tmpdir(), "sluice secrets ")));
      await chmod(base, 0o755);
      dir = join(base, "data");
      outside = join(base, "host");
      await mkdir(outside);
      await mkdir(join(dir, "datum", "out"), { recursive: true });
      await mkdir(join(dir, "worker"));
      if (absent) return;
      const hidden = [join(base, "tokens"), join(base, "tokens file")];
      const jail = await find({ root: await readRootEntries(), dataDir: dir, hidden });
      if (typeof jail === "string") throw new Error(jail);
      executor = processExecutor(jail);
      const { signal } = new AbortController();
      const image = { image: "any", pipeline: "any", pullSecrets: [] };
      sandbox = await executor.prepare({ dir: join(dir, "worker"), ...image, signal });
    });

    afterEach(async () => {
      await sandbox?.close();
      await executor?.close();
      await removeTree(base);
    });

    function sh(script: string, secrets: readonly MountedSecret[]): Promise<Run> {
      const command = { pfs: join(dir, "datum"), cmd: ["sh", "-c", script], stdin: null, env: { PATH } };
      return sandbox.run({ ...command, secrets, signal: new AbortController().signal });
    }
    const refusal = async (...secrets: MountedSecret[]) => {
      const run = await sh("touch /pfs/out/started", secrets);
      expect(await readdir(join(dir, "datum", "out"))).toEqual([]);
      expect(run).toMatchObject({ kind: "not-started", hopeless: true });
      return run.kind === "not-started" ? run.reason : "";
    };

    needs(`${name}: each key is a file, whatever its bytes are`, async () => {
      const bytes = randomBytes(200_000);
      const keys = { user: "me", empty: "", "a.b-c_D": "line\nline\n", blob: bytes };
      const at = `/${UNUSED}/deep`;
      const run = await sh(`cp -r ${at} /pfs/out/copy && ls -A ${at}`, [mounted(at, keys)]);
      expect(run).toEqual({ kind: "exited", code: 0, log: "a.b-c_D\nblob\nempty\nuser\n" });
      for (const [key, value] of Object.entries(keys)) {
        const copy = await readFile(join(dir, "datum/out/copy", key));
        expect(copy.equals(Buffer.from(value)), key).toBe(true);
      }
    });

    needs(`${name}: several secrets are shown side by side`, async () => {
      const secrets = ["one", "two", "three"].map((key) => mounted(`/${UNUSED}/${key}`, { key }, key));
      const run = await sh(`cat /${UNUSED}/*/key`, secrets);
      expect(run).toMatchObject({ code: 0, log: "onethreetwo" });
    });

    needs(`${name}: what is not on the machine is made for the command alone`, async () => {
      await symlink(outside, join(outside, "link"));
      await writeFile(join(outside, "file"), "there");
      const places = [
        `/${UNUSED}`,
        `/etc/${UNUSED}/x`,
        `/run/${UNUSED}/x`,
        `/run/${UNUSED}/y/`,
        join(outside, "link/new"),
      ];
      for (const at of places) {
        const script = `cat "${at}/key" && test -s /etc/passwd && cat "${outside}/file" && cat "${outside}/link/file"`;
        expect(await sh(script, [mounted(at, { key: "k" })]), at).toMatchObject({
          code: 0,
          log: "kthere" + "there",
        });
      }
      const all = places.map((at, index) => mounted(at, { key: String(index) }, `s-${index}`));
      expect(await sh(places.map((at) => `cat "${at}/key"`).join(" && "), all)).toMatchObject({
        log: "01234",
      });
      expect(await readdir(outside)).toEqual(["file", "link"]);
      // In the folders of the machine others may make something meanwhile.
      const shared = await Promise.all(["/", "/etc", "/run"].map((folder) => readdir(folder)));
      expect(shared.flat().filter((name) => name.includes(UNUSED))).toEqual([]);
    });

    needs(`${name}: a folder that is there shows the secret alone`, async () => {
      await writeFile(join(outside, "hidden"), "x");
      const run = await sh(`ls -A "${outside}"`, [mounted(outside, { key: "k" })]);
      expect(run).toMatchObject({ code: 0, log: "key\n" });
      expect(await readdir(outside)).toEqual(["hidden"]);
    });

    needs(`${name}: a folder beside which a secret is mounted stays what it was`, async () => {
      await mkdir(join(outside, "folder"));
      await writeFile(join(outside, "folder/file"), "f");
      await writeFile(join(outside, "odd ' name\n"), "o");
      execFileSync("chmod", ["1777", outside]);
      const script = `cd "${outside}" && cat folder/file odd* && stat -c %a . && touch folder/new`;
      const run = await sh(script, [mounted(join(outside, "new/key"), { key: "k" })]);
      expect(run).toMatchObject({ code: 0, log: "fo1777\n" });
      expect(await readdir(join(outside, "folder"))).toEqual(["file", "new"]);
    });

    needs(`${name}: the node's data folder stays hidden where a folder around it is opened`, async () => {
      const run = await sh(`ls -A "${dir}"`, [mounted(join(base, "new"), { key: "k" })]);
      expect(run).toMatchObject({ code: 0, log: "" });
    });

    needs(
      `${name}: a secret in a folder that is hidden, or around one, shows nothing of that folder`,
      async () => {
        const tokens = join(base, "tokens");
        await mkdir(join(tokens, "account"), { recursive: true });
        for (const file of ["token", "account/token"]) await writeFile(join(tokens, file), "hush");
        await writeFile(join(base, "tokens file"), "hush");
        const spy = `cd "${base}" && ls -AR tokens; cat tokens/token tokens/account/token "tokens file"; touch tokens/new`;
        for (const at of ["tokens/mine", "tokens/account/mine", "tokens/account", "tokens", "beside/mine"]) {
          const run = await sh(`cat "${join(base, at)}/key"; ${spy}`, [
            mounted(join(base, at), { key: "k" }),
          ]);
          expect(run.log, at).toMatch(/^k/);
          expect(run.log, at).not.toContain("hush");
          expect(run.log, at).not.toMatch(/^token$/m);
          expect(run, at).not.toMatchObject({ code: 0 });
          expect(await readdir(tokens)).toEqual(["account", "token"]);
        }
        const log = await sh(`ls -A "${base}"`, [mounted(base, { key: "k" })]);
        expect(log).toMatchObject({ kind: "not-started" });
      },
    );

    needs(`${name}: a command can't change, add or unmount anything, and others can't read`, async () => {
      const at = `/${UNUSED}`;
      const attempts = [
        `echo x > ${at}/key`,
        `touch ${at}/new`,
        `rm -f ${at}/key`,
        `umount ${at}/key || umount ${at}`,
        `mount -o remount,rw ${at}`,
        `mount -o remount,rw,bind ${at}`,
      ];
      for (const attempt of attempts) {
        const run = await sh(`${attempt} 2>/dev/null`, [mounted(at, { key: "k" })]);
        expect(run, attempt).not.toMatchObject({ code: 0 });
      }
      const run = await sh(`stat -c %a ${at}/key; stat -f -c %T ${at}`, [mounted(at, { key: "k" })]);
      expect(run.log).toMatch(/^[46]00\ntmpfs\n$/);
    });

    needs(`${name}: no byte is among arguments, in the environment or on disk`, async () => {
      const value = randomBytes(16).toString("hex");
      const script = [
        `cat /${UNUSED}/key > /pfs/out/copy`,
        "tr '\\0' '\\n' < /proc/self/environ; tr '\\0' '\\n' < /proc/1/cmdline",
        "ls /proc/self/fd > /pfs/out/descriptors",
      ];
      const descriptors = () => readFile(join(dir, "datum/out/descriptors"), "utf8");
      await sh(script.join("\n"), []);
      const without = await descriptors();
      const run = await sh(script.join("\n"), [mounted(`/${UNUSED}`, { key: value })]);
      expect(run).toMatchObject({ code: 0 });
      expect(run.log).not.toContain(value);
      expect(await readFile(join(dir, "datum/out/copy"), "utf8")).toBe(value);
      expect(await descriptors()).toBe(without);
      await removeTree(join(dir, "datum/out"));
      expect(await holds(dir, value)).toBe(false);
    });

    needs(`${name}: a path that can't be mounted is refused, saying why`, async () => {
      await writeFile(join(outside, "file"), "x");
      await symlink("/nowhere/at/all", join(outside, "dangling"));
      const cases: [string, string][] = [
        ["/", "it would hide everything else"],
        ["//", "it would hide everything else"],
        ["/proc/x", "nothing can be mounted in /proc"],
        ["/sys", "nothing can be mounted in /sys"],
        ["/dev/shm/x", "nothing can be mounted in /dev"],
        ["/pfs/out/x", "nothing can be mounted in /pfs"],
        ["/etc/../pfs", "nothing can be mounted in /pfs"],
        [join(dir, "x"), "the runner's data folder is there"],
        [base, "the runner's data folder is there"],
        [join(outside, "file"), `${outside}/file is a file here`],
        [join(outside, "file/x"), `${outside}/file is a file here`],
        [join(outside, "dangling/x"), `${outside}/dangling is a link here that leads nowhere`],
      ];
      for (const [at, why] of cases) {
        expect(await refusal(mounted(at, { key: "k" }))).toBe(
          `secret "key" can't be mounted at ${at}: ${why}`,
        );
      }
    });

    needs(`${name}: a path in another secret's is refused, naming both`, async () => {
      for (const inner of [`/${UNUSED}`, `/${UNUSED}/in/it`]) {
        const secrets = [mounted(`/${UNUSED}`, { a: "1" }, "outer"), mounted(inner, { b: "2" }, "inner")];
        expect(await refusal(...secrets)).toMatch(
          /secret "(inner|outer)" can't .*: secret "(inner|outer)" is mounted there/,
        );
      }
    });

    needs(`${name}: a folder with too much in it is refused, with a better place`, async () => {
      const script = 'cd "$1" && seq -f f%g 1 501 | xargs touch';
      execFileSync("sh", ["-c", script, "sh", outside]);
      const reason = await refusal(mounted(join(outside, "new"), { key: "k" }));
      expect(reason).toContain(`${outside} holds more than 500 entries`);
      expect(reason).toContain("/secrets/");
    });

    needs(`${name}: more keys or bytes than can be handed over are refused`, async () => {
      const keys = Object.fromEntries(Array.from({ length: 257 }, (_, i) => [`k${i}`, "v"]));
      expect(await refusal(mounted(`/${UNUSED}`, keys))).toContain("256 keys in all");
      const large = Array.from({ length: 9 }, (_, i) =>
        mounted(`/${UNUSED}/${i}`, { k: Buffer.alloc(1 << 20) }),
      );
      expect(await refusal(...large)).toContain("8388608 bytes in all");
    });

    const asNobody = test.skipIf(absent || nobody.absent);
    asNobody(`${name}, root, setpriv: works for a user without privileges${nobody.why}`, async () => {
      execFileSync("chown", ["-R", "nobody", dir]);
      const script = `cat /run/${UNUSED}/x/key /${UNUSED}/key > /pfs/out/copy; test -s /etc/passwd; echo $? >> /pfs/out/copy`;
      const words = [process.execPath, SANDBOX, name, dir, script, `/run/${UNUSED}/x`, `/${UNUSED}`];
      const [file = "", ...args] = withoutPrivileges(["--reuid=nobody", "--clear-groups"], words);
      await removeTree(join(dir, "worker"));
      execFileSync(file, args, { stdio: "ignore" });
      expect(await readFile(join(dir, "datum/out/copy"), "utf8")).toBe("valuevalue0\n");
    });
  });
}

describe("an agent with secrets (bubblewrap or unshare)", () => {
  const needs = test.skipIf(JAILS.every(({ absent }) => absent));
  const at = `/${UNUSED}/key`;
  let stage: Stage;
  let source: string;
  let said: string;

  beforeEach(async () => {
    stage = await Stage.open();
    source = await mkdtemp(join(tmpdir(), "sluice-source-"));
    said = "";
  });
  afterEach(async () => {
    await stage.close();
    await removeTree(source);
  });

  function transform(...secrets: { name: string; mountPath: string }[]): void {
    const stdin = [`cat ${at}/token > /pfs/out/copy`, "cp $in /pfs/out/done"];
    stage.gateway.transform = { image: "any", cmd: ["sh"], stdin, secrets, imagePullSecrets: ["registry"] };
  }
  const put = async (name: string, keys: Record<string, string>) => {
    await mkdir(join(source, name));
    for (const [key, value] of Object.entries(keys)) await writeFile(join(source, name, key), value);
  };
  const start = async (secrets: string | undefined) => {
    const write = (line: string) => {
      said += line;
    };
    const log = pino({ level: "trace" }, { write });
    return startRunner(stage.config(secrets === undefined ? {} : { secrets }), { log });
  };
  const end = async (runner: Runner) => {
    runner.kill();
    await runner.done;
  };

  needs("gives them to its commands, and keeps them off the disk and out of its log", async () => {
    const value = randomBytes(16).toString("hex");
    await put("key", { token: value });
    transform({ name: "key", mountPath: at });
    stage.gateway.add("a", "b");
    const runner = await start(source);
    await stage.reported(2);
    for (const outcome of stage.gateway.outcomes) {
      expect(stage.gateway.outputBytes(outcome, "copy")?.toString()).toBe(value);
    }
    await end(runner);
    expect(said).toContain("runner started");
    expect(said).not.toContain(value);
    expect(await holds(stage.dataDir, value)).toBe(false);
  });

  needs("ends the job where a secret is missing, naming it and where it was looked for", async () => {
    transform({ name: "absent", mountPath: at });
    stage.gateway.add("a");
    const runner = await start(source);
    await stage.reported(1);
    expect(stage.gateway.outcomes).toMatchObject([
      {
        ...{ state: "failed", endsJob: true, exitCode: null },
        reason: 'secret "absent" is not there: looked for <--secrets>/absent',
      },
    ]);
    await end(runner);
    // Who looks after the machine reads where that is.
    expect(said).toContain(`${source}/absent`);
  });

  needs("ends the job of a limited pipeline whose secret says nothing, and names both", async () => {
    await put("key", { token: "hush" });
    transform({ name: "key", mountPath: at });
    stage.gateway.limited = true;
    stage.gateway.add("a");
    const runner = await start(source);
    await stage.reported(1);
    expect(stage.gateway.outcomes).toMatchObject([
      {
        ...{ state: "failed", endsJob: true },
        reason: expect.stringContaining('secret "key" does not serve the pipeline "edges"'),
      },
    ]);
    await end(runner);
  });

  needs("ends the job where it has no secrets at all, and where one can't be mounted", async () => {
    transform({ name: "key", mountPath: at });
    stage.gateway.add("a");
    await end(await start(undefined).then((runner) => stage.reported(1).then(() => runner)));
    await put("key", { token: "hush" });
    transform({ name: "key", mountPath: "/pfs/in" });
    stage.gateway.add("b");
    await end(await start(source).then((runner) => stage.reported(2).then(() => runner)));
    expect(stage.gateway.outcomes).toMatchObject([
      { endsJob: true, reason: expect.stringContaining("started without --secrets") },
      { endsJob: true, reason: 'secret "key" can\'t be mounted at /pfs/in: nothing can be mounted in /pfs' },
    ]);
  });
});

for (const jail of JAILS) {
  test.skipIf(jail.absent)(
    `${jail.name}: a secret that can't be read just now is trouble of the node, and no failure`,
    async () => {
      const broken = async () => {
        throw new Error('secret "key" could not be read: it answers 500');
      };
      const stage = await DatumStage.open(jail, { read: broken });
      const secrets = [{ name: "key", mountPath: `/${UNUSED}` }];
      const trouble = new NodeCondition('secret "key" could not be read: it answers 500');
      await expect(stage.run({ cmd: ["true"], secrets }, [])).rejects.toThrow(trouble);
      await stage.close();
    },
  );
}

/** Whether any file below a folder holds the text. */
async function holds(folder: string, text: string): Promise<boolean> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    if ((await readFile(join(entry.parentPath, entry.name))).includes(text)) return true;
  }
  return false;
}
