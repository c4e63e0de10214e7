// @module-tag rest
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { DATA_LABEL } from "../../../../runner/executors/container/engine/disposal.ts";
import { workbench } from "../conformance/workbench.ts";
import { soon } from "../support/running.ts";
import { containerBelow, containerSubjects, containersBelow } from "./support/containers.ts";

for (const subject of await containerSubjects()) {
  const { name, engine } = subject;

  describe(`a worker's container in ${name}`, () => {
    const needs = test.skipIf(subject.absent);
    const bench = workbench(subject);
    const only = () => containerBelow(engine, bench.dir);

    needs(`${name}: is the same for one datum after the other, also after an abort`, async () => {
      await bench.run(["true"]);
      const { Id } = await only();
      const abort = new AbortController();
      const sleeps = bench.sh("echo now; (trap '' TERM; sleep 1000) & kill -STOP $!; sleep 1000", {
        signal: abort.signal,
        onOutput: () => abort.abort(),
      });
      expect(await sleeps).toMatchObject({ kind: "exited", code: 137 });
      await bench.run(["true"]);
      expect((await only()).Id).toBe(Id);
    });

    needs(`${name}: killed under a datum, fails it in words, and the next one has another`, async () => {
      await bench.run(["true"]);
      const { Id } = await only();
      const run = await bench.sh("echo half > /pfs/out/half; echo now; sleep 1000", {
        onOutput: () => void engine?.client.getContainer(Id).kill(),
      });
      expect(run).toMatchObject({ kind: "exited", code: 137, log: "now\n" });
      expect(run.kind === "exited" && run.fault).toBe("the command's container has ended (exit code 137)");
      expect(await bench.out("half")).toBe("half\n");
      expect(await bench.run(["echo", "again"])).toMatchObject({ code: 0, log: "again\n" });
      expect((await only()).Id).not.toBe(Id);
    });

    needs(`${name}: removed under a datum, fails it in words`, async () => {
      await bench.run(["true"]);
      const { Id } = await only();
      const run = await bench.sh("echo now; sleep 1000", {
        onOutput: () => void engine?.client.getContainer(Id).remove({ force: true }),
      });
      expect(run.kind === "exited" && run.fault).toMatch(/^the command's container (was removed|has ended)/);
      expect(await bench.run(["echo", "again"])).toMatchObject({ code: 0 });
    });

    needs(`${name}: that has ended between two datums is replaced, and neither fails`, async () => {
      await bench.run(["true"]);
      const { Id } = await only();
      await engine?.client.getContainer(Id).kill();
      await soon(async () => (await engine?.client.getContainer(Id).inspect())?.State.Running).toBe(false);
      expect(await bench.run(["echo", "again"])).toEqual({ kind: "exited", code: 0, log: "again\n" });
    });

    needs(`${name}: keeps nothing of a datum in the folder that is /pfs`, async () => {
      const pfs = await bench.datum({ file: "given" });
      await bench.sh("mkdir /pfs/out/.hidden; echo x > /pfs/out/.hidden/x; echo y > /pfs/out/-y", { pfs });
      const { Mounts } = await only();
      const slot = Mounts.find(({ Destination }) => Destination === "/pfs")?.Source ?? "";
      expect(await readdir(slot)).toEqual(["out"]);
      expect(await readdir(join(slot, "out"))).toEqual([]);
      expect((await readdir(join(pfs, "out"))).sort()).toEqual(["-y", ".hidden"]);
      expect(await readdir(join(pfs, "in"))).toEqual(["file"]);
    });

    needs(`${name}: is gone when the worker ends, with what it had on this machine`, async () => {
      const before = await containersBelow(engine, bench.dir);
      const sandbox = await bench.prepare();
      await sandbox.run(bench.command(["true"]));
      const [own] = (await containersBelow(engine, bench.dir)).filter(
        ({ Id }) => !before.some((one) => one.Id === Id),
      );
      const dir = own?.Config.Labels["sluice.worker-dir"] ?? "";
      await sandbox.close();
      expect((await containersBelow(engine, bench.dir)).map(({ Id }) => Id)).not.toContain(own?.Id);
      expect((await readdir(dir)).filter((entry) => entry.startsWith("control"))).toEqual([]);
      expect(own?.Config.Labels[DATA_LABEL]).toMatch(/^[0-9a-f-]{36}$/);
    });
  });
}
