import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, realpath, stat, statfs, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ownerOf } from "../../../../runner/executors/container/engine/disposal.ts";
import {
  planSecrets,
  removeDeadSecrets,
  writeSecrets,
} from "../../../../runner/executors/container/secrets.ts";
import type { MountedSecret } from "../../../../runner/executors/executor.ts";
import { removeTree } from "../../../../runner/pfs/remove.ts";
import { workbench } from "../conformance/workbench.ts";
import { containerBelow, containerSubjects } from "./support/containers.ts";

const TMPFS = 0x01021994;

function mounted(mountPath: string, keys: Record<string, string>, name = "key"): MountedSecret {
  const secret = new Map(Object.entries(keys).map(([key, value]) => [key, Buffer.from(value)]));
  return { name, mountPath, secret };
}

async function holds(folder: string, text: string): Promise<boolean> {
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    if ((await readFile(join(entry.parentPath, entry.name))).includes(text)) return true;
  }
  return false;
}

for (const subject of await containerSubjects()) {
  const { name, engine } = subject;

  for (const image of ["busybox", "user", "bare"] as const) {
    describe(`secrets in the image "${image}" in ${name}`, subject.options, () => {
      const needs = test.skipIf(subject.absent);
      const bench = workbench(subject, { image });
      const value = randomBytes(12).toString("hex");
      const secrets = [mounted("/secrets/a b", { key: value, other: "two" })];

      needs(`${name}: "${image}" sees them as files`, async () => {
        expect(await bench.run(["cp", "/secrets/a b/key", "/pfs/out/got"], { secrets })).toMatchObject({
          code: 0,
        });
        expect(await bench.out("got")).toBe(value);
      });
    });
  }

  describe(`secrets in ${name}`, subject.options, () => {
    const needs = test.skipIf(subject.absent);
    const bench = workbench(subject);
    const value = randomBytes(12).toString("hex");
    const secrets = [mounted("/secrets/db", { key: value }), mounted("/etc/token", { token: "t" }, "token")];

    needs(`${name}: are in memory alone, where nobody else can enter`, async () => {
      await bench.run(["cat", "/secrets/db/key"], { secrets });
      const container = await containerBelow(engine, bench.dir);
      const source = container.Mounts.find(({ Destination }) => Destination === "/secrets/db")?.Source ?? "";
      expect((await statfs(source)).type).toBe(TMPFS);
      expect((await stat(dirname(source))).mode & 0o777).toBe(0o700);
      expect(await holds(bench.dir, value)).toBe(false);
      expect(JSON.stringify(container)).not.toContain(value);
    });

    needs(`${name}: can't be changed by the command`, async () => {
      for (const attempt of [
        "echo x > /secrets/db/key",
        "touch /secrets/db/new",
        "rm -f /secrets/db/key",
        "umount /secrets/db",
      ]) {
        const run = await bench.sh(`(${attempt}) 2>/dev/null; ls /secrets/db; cat /secrets/db/key`, {
          secrets,
        });
        expect(run.log, attempt).toBe(`key\n${value}`);
      }
    });

    needs(
      `${name}: keep the container while they are the same, and get another when they change`,
      async () => {
        const read = (all: MountedSecret[]) =>
          bench.sh("cat /secrets/db/key; ls -d /etc/token", { secrets: all });
        await read(secrets);
        const { Id } = await containerBelow(engine, bench.dir);
        await read(secrets.map((secret) => ({ ...secret })));
        expect((await containerBelow(engine, bench.dir)).Id).toBe(Id);
        expect((await read([mounted("/secrets/db", { key: "new" })])).log).toMatch(/^newls: /);
        expect((await containerBelow(engine, bench.dir)).Id).not.toBe(Id);
        expect((await bench.sh("ls -d /secrets/db")).log).toContain("No such file");
      },
    );

    needs(`${name}: go from memory with the worker`, async () => {
      const sandbox = await bench.prepare();
      await sandbox.run(bench.command(["true"], { secrets: [mounted("/secrets/x", { key: value })] }));
      await bench.run(["true"]);
      const { Mounts } = await containerBelow(engine, join(bench.dir)).catch(() => ({ Mounts: [] }));
      await sandbox.close();
      for (const { Source } of Mounts) expect(Source).not.toContain("sluice-secrets");
    });

    needs(`${name}: a path that the image has as a file ends the job, naming the secret`, async () => {
      const run = await bench.run(["true"], { secrets: [mounted("/bin/busybox", { key: "x" })] });
      expect(run).toMatchObject({ kind: "not-started", hopeless: true });
      expect(run.kind === "not-started" && run.reason).toMatch(
        /^secret "key" can't be mounted at \/bin\/busybox: /,
      );
      expect(await bench.run(["true"])).toMatchObject({ code: 0 });
    });

    needs(`${name}: a path that is reserved ends the job, naming the secret`, async () => {
      const run = await bench.run(["true"], { secrets: [mounted("/pfs/in", { key: "x" })] });
      expect(run).toEqual({
        ...{ kind: "not-started", log: "", hopeless: true },
        reason: 'secret "key" can\'t be mounted at /pfs/in: nothing can be mounted in /pfs',
      });
    });
  });
}

describe("where secrets may go", () => {
  const REFUSED: [path: string, why: RegExp][] = [
    ["/", /hide everything/],
    ["/a/..", /hide everything/],
    ["/proc/x", /in \/proc/],
    ["/sys", /in \/sys/],
    ["/dev/shm", /in \/dev/],
    ["/pfs", /in \/pfs/],
    ["//pfs//out/", /in \/pfs/],
    ["/.sluice/x", /in \/.sluice/],
  ];
  test.each(REFUSED)("is not at %s", (path, why) => {
    expect(() => planSecrets([mounted(path, { key: "x" })])).toThrow(why);
  });

  test("is not inside another, nor at the same place", () => {
    for (const path of ["/a/b", "/a/", "/a"]) {
      const both = [mounted("/a", { key: "x" }), mounted(path, { key: "x" }, "inner")];
      expect(() => planSecrets(both)).toThrow("is mounted there");
    }
  });

  test("is nowhere for keys that are no names of files, and for more bytes than may be", () => {
    for (const key of ["..", ".", "", "a/b"]) {
      expect(() => planSecrets([mounted("/a", { [key]: "x" })])).toThrow("can't be the name of a file");
    }
    const large = [mounted("/a", { key: "x".repeat(9_000_000) })];
    expect(() => planSecrets(large)).toThrow("bytes in all");
  });

  test("anything that differs makes another fingerprint", () => {
    const all = [
      [mounted("/a", { key: "x" })],
      [mounted("/b", { key: "x" })],
      [mounted("/a", { key: "y" })],
      [mounted("/a", { other: "x" })],
      [mounted("/a", { key: "x" }, "other")],
      [mounted("/a", { key: "x", other: "" })],
      [],
    ];
    const prints = all.map((one) => planSecrets(one).fingerprint);
    expect(new Set(prints).size).toBe(all.length);
  });
});

describe("secrets that a killed agent left in memory", () => {
  let dataDir: string;
  beforeEach(async () => {
    dataDir = await realpath(await mkdtemp(join(tmpdir(), "sluice-secrets-")));
    await mkdir(join(dataDir, "agents"));
    await writeFile(join(dataDir, "agents/x"), "");
  });
  afterEach(() => removeTree(dataDir));

  test("are removed by the next one, those of the living and of other data folders are not", async () => {
    const owner = await ownerOf({ dataDir, node: "n1" });
    const dead = { ...owner, agent: "1-0" };
    const other = { ...dead, data: "00000000-0000-4000-8000-000000000000" };
    const plan = planSecrets([mounted("/a", { key: "x" })]);
    const files = await Promise.all(
      [owner, dead, other].map((one) => writeSecrets(plan.secrets, { owner: one, reader: "root" })),
    );
    await removeDeadSecrets(owner);
    const there = await Promise.all(
      files.map((one) =>
        stat(one?.mounts[0]?.source ?? "").then(
          () => true,
          () => false,
        ),
      ),
    );
    for (const one of files) await one?.remove();
    expect(there).toEqual([true, false, true]);
  });
});
