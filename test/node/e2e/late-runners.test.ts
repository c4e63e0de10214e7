// @module-tag rest
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { KeyCreated } from "../../../protocol/keys.ts";
import { Lease, LeaseRequest, RenewRequest } from "../../../protocol/runner.ts";
import { Control } from "../../support/control.ts";
import { type DevServer, startDevServer, startRunner } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { type Passed, startRelay } from "../../support/relay.ts";
import { S3 } from "../../support/s3.ts";
import { removeScratch, scratchFolder } from "../../support/scratch.ts";
import { StoreProxy } from "../../support/store-proxy.ts";
import { openWire } from "../../support/wire.ts";

const ARCHIVE = "master.archive";
const PATIENT = { withinMs: 120_000 };
const TIMEOUT = { timeout: 300_000 };

let server: DevServer;
let control: Control;
let s3: S3;

beforeAll(async () => {
  server = await startDevServer();
  control = new Control(server);
  s3 = new S3(server);
});
afterAll(() => server?.stop());

/** A pipeline with one worker over a bucket of its own, which is made. */
async function pipeline(name: string, script: string, more: object = {}): Promise<string> {
  const input = `master.${name}-in`;
  await s3.createBucket(input);
  await control.createPipeline({
    pipeline: { name },
    transform: { image: "none", cmd: ["sh", "-eu"], stdin: [script] },
    parallelism_spec: { strategy: "CONSTANT", constant: 1 },
    inputs: [{ name: "in", repo: { name: `${name}-in` }, glob: "/*" }],
    ...more,
  });
  return input;
}

const isCall = (path: string) => (passed: Passed) =>
  passed.path === `/api/v1/runner/${path}` && passed.status === 200;
const isLeave = (passed: Passed) =>
  isCall("renew")(passed) && RenewRequest.parse(JSON.parse(passed.sent)).leaving === true;

test(
  "a pipeline that is stopped while its command runs and started again has a slot for its next worker at once",
  TIMEOUT,
  async () => {
    const input = await pipeline(
      "again",
      "test ! -e /pfs/in/endless || sleep 100000; cp /pfs/in/* /pfs/out/",
    );
    const relay = await startRelay(server);
    const runner = startRunner({ ...server, endpoint: relay.endpoint }, { node: "stops" });
    try {
      await s3.put(input, "endless", "1");
      const job = await eventually("the command runs", async () => {
        const [first] = await control.jobs("again");
        const { text } = await control.ask("GET", `/jobs/${first?.id}/datums`);
        return JSON.parse(text).datums[0]?.state === "running" && first;
      });
      expect((await control.ask("POST", "/pipelines/again/stop")).status).toBe(200);
      // The command would go on for a day: the worker ends it because its lease is lost, and then leaves.
      const left = await relay.seen(isLeave);
      const since = relay.passed.indexOf(left);
      const { worker: first } = RenewRequest.parse(JSON.parse(left.sent));
      expect((await control.job(job.id)).state).toBe("killed");

      await s3.delete(input, "endless");
      await s3.put(input, "short", "2");
      expect((await control.ask("POST", "/pipelines/again/start")).status).toBe(200);
      const [, next] = await control.ended("again", { count: 2, ...PATIENT });
      expect(next).toMatchObject({ state: "success" });
      const later = relay.passed
        .slice(since)
        .filter(isCall("lease"))
        .map(({ sent, answered }) => ({
          worker: LeaseRequest.parse(JSON.parse(sent)).worker,
          slot: Lease.parse(JSON.parse(answered)).slot,
        }))
        .filter(({ worker }) => worker !== first);
      expect(later.length).toBeGreaterThan(0);
      // It never had to wait until the slot of the worker that left had run out.
      expect(later.filter(({ slot }) => !slot)).toEqual([]);
    } finally {
      await runner.stop();
      await relay.stop();
    }
  },
);

test(
  "a runner that sleeps in the middle of a PUT to an external store, and wakes when another has written a newer object, does not undo that",
  TIMEOUT,
  async () => {
    // One PUT. The kernel may have taken all of it when the runner falls asleep; no answer has come then.
    const size = 4_000_000;
    const store = new StoreProxy(server.endpoint);
    await store.start();
    const wire = await openWire(server);
    const secrets = scratchFolder();
    const body = { level: "write", repos: ["archive"] };
    await s3.createBucket(ARCHIVE);
    const key = await control.call("POST", "/keys", { body, answers: KeyCreated });
    mkdirSync(join(secrets, "archive-key"));
    writeFileSync(join(secrets, "archive-key", "AWS_ACCESS_KEY_ID"), key.id);
    writeFileSync(join(secrets, "archive-key", "AWS_SECRET_ACCESS_KEY"), key.secret);
    const variables = { SLUICE_SECRETS: secrets, SLUICE_EGRESS_LOCAL: "true" };
    const sleeper = startRunner({ ...server, endpoint: wire.endpoint }, { node: "sleeper", variables });
    const archived = async () => (await s3.get(ARCHIVE, "big"))?.toString("latin1", 0, 1);
    let other: ReturnType<typeof startRunner> | undefined;
    try {
      const egress = { URL: `s3://${ARCHIVE}`, endpoint: store.endpoint, secret: "archive-key" };
      const script = `head -c ${size} /dev/zero | tr '\\0' "$(cat /pfs/in/letter)" > /pfs/out/big`;
      const input = await pipeline("late", script, { egress });
      const late = store.holdFirst(({ method, target }) => method === "PUT" && target.includes("/big"));
      await s3.put(input, "letter", "a");
      await late.begun;
      sleeper.signal("SIGSTOP");

      other = startRunner(server, { node: "other", variables });
      await control.ended("late", { count: 1, ...PATIENT });
      expect(await archived()).toBe("a");
      await s3.put(input, "letter", "b");
      const jobs = await control.ended("late", { count: 2, ...PATIENT });
      expect(jobs).toMatchObject([{ state: "success" }, { state: "success" }]);
      expect(await archived()).toBe("b");

      // It can't hear that its lease is lost before it has written.
      wire.silence();
      store.received = 0;
      late.release();
      await eventually("the store takes what had come of the PUT", () => store.received > 0);
      sleeper.signal("SIGCONT");
      expect(await late.status).toBe(412);
      expect(store.received).toBeGreaterThanOrEqual(size);
      expect(await archived()).toBe("b");

      await wire.mend();
      await eventually(
        "the sleeper hears that its lease is lost",
        () => sleeper.output().includes("was lost: its work is stopped"),
        PATIENT,
      );
      expect(await archived()).toBe("b");
      expect(await control.jobs("late")).toHaveLength(2);
    } finally {
      sleeper.signal("SIGCONT");
      await sleeper.stop();
      await other?.stop();
      await wire.stop();
      await store.stop();
      removeScratch(secrets);
    }
  },
);
