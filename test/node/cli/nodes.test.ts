import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Node, NodeList } from "../../../protocol/runner.ts";
import { parseCliJson } from "../../support/cli-json.ts";
import { Control } from "../../support/control.ts";
import {
  type DevServer,
  ROOT,
  sluice,
  sluiceCommand,
  sluiceEnv,
  sluiceOk,
  startDevServer,
} from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { FakeRunner, succeeded } from "../../support/fake-runner.ts";
import { start } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { REST } from "../../support/suite.ts";

let server: DevServer;
let control: Control;
let s3: S3;

beforeAll(async () => {
  server = await startDevServer();
  control = new Control(server);
  s3 = new S3(server);
});
afterAll(() => server?.stop());

const ok = (...args: string[]): Promise<string> => sluiceOk(server, ...args);

async function makePipeline(name: string): Promise<void> {
  await s3.createBucket(`master.${name}-in`);
  await control.createPipeline({
    pipeline: { name },
    transform: { image: "busybox", cmd: ["true"] },
    inputs: [{ repo: { name: `${name}-in` }, glob: "/*" }],
  });
}

/** The line of a node in the list. */
async function listed(name: string): Promise<string> {
  return (await ok("node", "list")).split("\n").find((line) => line.startsWith(`${name} `)) ?? "";
}

describe("sluice node", () => {
  test("list shows what a node is, how it is, and what runs there", async () => {
    const runner = new FakeRunner(server, { node: "shown" });
    const work = [{ pipeline: "edges", workers: 2, running: 1 }];
    const bounds = { running: 24, workers: 256 };
    for (const [beat, line] of [
      [{ work, bounds }, /^shown +live +fake +1 +24 +256 +2.* {2}edges: 1 datum in 2 workers$/],
      [{}, /^shown +live +fake +1 +- +- +2.* {2}-$/],
    ] as const)
      await eventually(`it is listed as ${line}`, async () => {
        await runner.heartbeat(beat);
        return line.test(await listed("shown"));
      });
  });

  test("drain takes all work from a node until resume gives it back", {
    ...REST,
    timeout: 180_000,
  }, async () => {
    await makePipeline("moved");
    const stays = new FakeRunner(server, { node: "stays" });
    const drained = new FakeRunner(server, { node: "drained" });
    const share = async (runner: FakeRunner): Promise<number | undefined> =>
      (await runner.heartbeat()).workers.find(({ pipeline }) => pipeline === "moved")?.count;
    await stays.heartbeat();
    expect(await share(drained)).toBe(1);
    expect(await ok("node", "drain", "drained")).toBe("drained is being drained\n");
    expect(await share(drained)).toBeUndefined();
    expect(await share(stays)).toBe(1);
    expect(await listed("drained")).toMatch(/^drained +draining/);
    // Whatever becomes of the gateway, the mark stays.
    await server.kill9();
    await server.restart();
    expect(await share(drained)).toBeUndefined();
    const node = Node.parse(parseCliJson(await ok("node", "resume", "drained", "--json")));
    expect(node).toMatchObject({ name: "drained", draining: false });
    expect(await share(drained)).toBe(1);
    expect(await ok("node", "resume", "drained")).toBe("drained takes work again\n");
  });

  test(
    "drain --wait comes back when nothing runs there any more, and tells what still does",
    REST,
    async () => {
      const runner = new FakeRunner(server, { node: "busy" });
      const work = [{ pipeline: "edges", workers: 2, running: 2 }];
      await runner.heartbeat({ work });
      const command = sluiceCommand(["node", "drain", "busy", "--wait"]);
      const waiting = start(command, { cwd: ROOT, env: sluiceEnv(server) });
      await eventually("its work is told", async () => {
        await runner.heartbeat({ work });
        return waiting.output().includes("edges: 2 datums in 2 workers");
      });
      await eventually("less of its work is told", async () => {
        await runner.heartbeat({ work: [{ pipeline: "edges", workers: 1, running: 0 }] });
        return waiting.output().includes("edges: 0 datums in 1 worker");
      });
      let isOver = false;
      void waiting.ended.then(() => {
        isOver = true;
      });
      await eventually("it comes back", async () => {
        await runner.heartbeat({ work: [] });
        return isOver;
      });
      const { code, stdout } = await waiting.ended;
      expect(code).toBe(0);
      expect(stdout.toString()).toMatch(/^busy is being drained\n(.*\n)*nothing runs on busy\n$/);
    },
  );

  test(
    "drain --wait comes back when the runner has gone, and refuses to wait for what was resumed",
    REST,
    async () => {
      const runner = new FakeRunner(server, { node: "goes" });
      const waiting = async () => {
        const command = sluiceCommand(["node", "drain", "goes", "--wait"]);
        const started = start(command, { cwd: ROOT, env: sluiceEnv(server) });
        await eventually("it waits", async () => {
          await runner.heartbeat({ work: [{ pipeline: "edges", workers: 1, running: 1 }] });
          return started.output().includes("edges: 1 datum in 1 worker");
        });
        return started;
      };
      await runner.heartbeat();
      const first = await waiting();
      await control.ask("DELETE", "/runner/heartbeat?node=goes");
      expect((await first.ended).stdout.toString()).toMatch(/goes does not live any more\n$/);
      const again = await waiting();
      await ok("node", "resume", "goes");
      const { code, stderr } = await again.ended;
      expect({ code, stderr }).toEqual({ code: 1, stderr: "error: goes was resumed by somebody\n" });
    },
  );

  test("drain and resume name a node that there is", REST, async () => {
    for (const verb of ["drain", "resume"]) {
      const { code, stderr } = await sluice(server, "node", verb, "nowhere");
      expect({ code, stderr }).toEqual({
        code: 7,
        stderr: "error: There is no node 'nowhere': 'sluice node list' shows those there are.\n",
      });
    }
  });
});

describe("why a job waits", () => {
  test("is on the command line: an empty input, a worker's trouble, nodes that are drained", {
    ...REST,
    timeout: 180_000,
  }, async () => {
    await makePipeline("why");
    expect(await ok("pipeline", "inspect", "why")).toMatch(
      /^state +active \(its first job waits for data: input 'why-in' is empty \(s3:\/\/master\.why-in holds no file\)\)$/m,
    );
    const runner = new FakeRunner(server, { node: "edge-7" });
    await s3.put("master.why-in", "a", "1");
    const lease = () => eventually("a datum is leased", async () => (await runner.lease("why")).datums[0]);
    // Its node lives, it gives back what it held, and says why.
    const inTrouble = async (): Promise<string> => {
      const { lease: held, job } = await lease();
      await runner.heartbeat();
      await runner.finish("why", [{ lease: held, state: "returned" }]);
      await runner.say("why", "manifest for nope:1 not found");
      return job;
    };
    const job = await inTrouble();
    const words = "node edge-7 can't run it: manifest for nope:1 not found";
    for (const command of [
      ["inspect", job],
      ["list", "--state", "waiting"],
    ])
      await eventually(`'${words}' is told by job ${command[0]}`, async () => {
        await inTrouble();
        return (await ok("job", ...command)).includes(words);
      });
    for (const { name } of (await control.call("GET", "/nodes", { answers: NodeList })).nodes)
      await control.ask("POST", `/nodes/${name}/drain`);
    await eventually("it is told that every node is being drained", async () => {
      await runner.heartbeat();
      return (await control.job(job)).reason?.startsWith("every node is being drained");
    });
    await ok("node", "resume", "edge-7");
    await runner.finish("why", [succeeded(await lease(), [])]);
    expect(await control.ended("why", { count: 1 })).toMatchObject([{ state: "success", reason: null }]);
  });
});
