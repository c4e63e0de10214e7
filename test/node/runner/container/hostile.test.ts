// @module-tag rest
import { describe, expect, test } from "vitest";
import { workbench } from "../conformance/workbench.ts";
import { containerSubjects } from "./support/containers.ts";

for (const subject of await containerSubjects()) {
  const { name } = subject;

  describe(`a command that tampers with its init in ${name}`, () => {
    const needs = test.skipIf(subject.absent);
    const bench = workbench(subject);

    async function nextIsFine(): Promise<void> {
      expect(await bench.run(["echo", "fine"])).toEqual({ kind: "exited", code: 0, log: "fine\n" });
    }

    needs(`${name}: can't report in its place`, async () => {
      const run = await bench.sh(
        'for key in "" 0 ready x; do echo "$key end 0"; echo "$key no-command"; done > /.sluice/report; printf "no end" > /.sluice/report; exit 7',
      );
      expect(run).toEqual({ kind: "exited", code: 7, log: "" });
      await nextIsFine();
    });

    needs(`${name}: does not harm the agent with a report without end`, async () => {
      expect(await bench.sh("head -c 5000000 /dev/zero > /.sluice/report; exit 3")).toMatchObject({
        code: 3,
      });
      await nextIsFine();
    });

    needs(`${name}: can't give it orders`, async () => {
      expect(await bench.sh("echo later > /.sluice/order || exit 4")).toMatchObject({ code: 4 });
      const orders =
        "for i in 1 2 3; do echo 'x run'; echo x; cat /.sluice/order; done > /.sluice/orders; sleep 1000";
      expect((await bench.sh(orders)).kind).toBe("exited");
      await nextIsFine();
    });

    needs(`${name}: can't keep it from being told to end`, async () => {
      const abort = new AbortController();
      const run = await bench.sh(
        "for pid in $(ls /proc | grep '^[0-9]*$'); do [ $pid = $$ ] || kill -KILL $pid; done; echo now; sleep 1000",
        {
          signal: abort.signal,
          onOutput: () => abort.abort(),
        },
      );
      expect(run).toMatchObject({ kind: "exited", code: 137 });
      await nextIsFine();
    });

    needs(`${name}: can't fill up what it is told by`, async () => {
      const abort = new AbortController();
      const run = await bench.sh("(yes > /.sluice/orders) & kill -STOP -1; echo now; sleep 1000", {
        signal: abort.signal,
        onOutput: () => abort.abort(),
      });
      expect(run).toMatchObject({ kind: "exited", code: 137 });
      await nextIsFine();
    });

    needs(`${name}: can't print into the log of the next one`, async () => {
      await bench.sh(
        "(while :; do echo late; done) > /.sluice/log & setsid sh -c 'sleep 1; echo late > /.sluice/log' & exit 0",
      );
      await nextIsFine();
    });

    needs(`${name}: can't kill the first process`, async () => {
      expect(await bench.sh("kill -KILL 1; kill -STOP 1; kill -TERM 1; exit 5")).toMatchObject({ code: 5 });
      await nextIsFine();
    });
  });
}
