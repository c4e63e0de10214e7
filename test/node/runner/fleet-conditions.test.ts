import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { NodeCondition } from "../../../runner/executors/executor.ts";
import { type Secret, SecretMissing, type SecretSource } from "../../../runner/secrets/source.ts";
import { REST } from "../../support/suite.ts";
import { type FakeAgent, startFakeAgent } from "./support/fake-agent.ts";
import { FakeExecutor } from "./support/fake-executor.ts";
import { Stage, soon } from "./support/running.ts";

let stage: Stage;
let executor: FakeExecutor;
let agents: FakeAgent[];

beforeEach(async () => {
  stage = await Stage.open();
  executor = new FakeExecutor();
  agents = [];
});
afterEach(async () => {
  for (const agent of agents) await agent.kill();
  expect(executor.open).toBe(0);
  await stage.close();
});

function startAgent(more: { secrets?: SecretSource } = {}): FakeAgent {
  const { endpoint } = stage.gateway;
  const agent = startFakeAgent({ endpoint, dataDir: stage.dataDir, executor, ...more });
  agents.push(agent);
  return agent;
}

function failing(words: string, { times = Number.POSITIVE_INFINITY } = {}): () => void {
  let left = times;
  return () => {
    left -= 1;
    if (left >= 0) throw new NodeCondition(words);
  };
}

const states = () => stage.gateway.outcomes.map(({ state }) => state);

describe("a node that can't run commands", () => {
  test("gives its datums back, says why, tries again, and says when it is over", REST, async () => {
    executor.onPrepare = failing("pull access denied for none", { times: 3 });
    stage.gateway.add("a", "b");
    startAgent();
    await stage.reported(2);
    expect(states().filter((state) => state !== "returned")).toEqual(["success", "success"]);
    await soon(() => stage.gateway.troubles).toEqual(["pull access denied for none", null]);
    expect(executor.prepared.length).toBe(4);
  });

  test("says so in its heartbeat for as long as it can't", REST, async () => {
    let isBroken = true;
    executor.onPrepare = () => {
      if (isBroken) throw new NodeCondition("pull access denied for none");
    };
    stage.gateway.add("a");
    startAgent();
    const troubles = () => stage.gateway.work.get("n1")?.map(({ trouble }) => trouble);
    await soon(troubles).toEqual(["pull access denied for none"]);
    isBroken = false;
    await stage.reported(1);
    await soon(troubles).toEqual([undefined]);
  });

  test("asks for no datums but to learn of updates, which others can do meanwhile", REST, async () => {
    executor.onPrepare = failing("no such image");
    stage.gateway.add("a");
    startAgent();
    await soon(() => executor.prepared.length).toBeGreaterThanOrEqual(4);
    expect(stage.gateway.leased.length).toBeLessThan(executor.prepared.length);
    expect(stage.gateway.troubles).toEqual(["no such image"]);
    await soon(() => stage.gateway.queue.length).toBe(1);
  });

  test("works again when the pipeline gets an image that can be had", REST, async () => {
    executor.onPrepare = ({ image }) => {
      if (image === "typo") throw new NodeCondition("no such image: typo");
    };
    stage.gateway.transform = { image: "typo", cmd: ["true"] };
    stage.gateway.add("a");
    startAgent();
    await soon(() => stage.gateway.troubles).toEqual(["no such image: typo"]);
    stage.gateway.transform = { image: "right", cmd: ["true"] };
    await stage.reported(1);
    expect(states().at(-1)).toBe("success");
    await soon(() => stage.gateway.troubles.at(-1)).toBe(null);
  });

  test("that runs processes gives back what demands a container, and says so", async () => {
    executor = new FakeExecutor("process");
    stage.gateway.add("a");
    startAgent();
    await stage.reported(1);
    const transform = { image: "any", cmd: ["true"] };
    stage.gateway.transform = { ...transform, container: "required" };
    stage.gateway.add("b");
    await soon(() => stage.gateway.troubles).toEqual([
      'its specification demands a container ("container": "required"), and this node runs commands as processes',
    ]);
    // Not in the sandbox that is there from before, either.
    expect(executor.prepared).toHaveLength(1);
    await soon(() => stage.gateway.queue.length).toBe(1);
    stage.gateway.transform = transform;
    await stage.reported(2);
    await soon(() => stage.gateway.troubles.at(-1)).toBe(null);
  });

  test("makes its sandbox anew when the pull secrets change: the image may be closed to it now", async () => {
    const read = async () => new Map();
    stage.gateway.transform = { image: "any", cmd: ["true"], imagePullSecrets: ["one"] };
    stage.gateway.add("a");
    startAgent({ secrets: { read } });
    await stage.reported(1);
    stage.gateway.transform = { image: "any", cmd: ["true"] };
    stage.gateway.add("b");
    await stage.reported(2);
    expect(executor.prepared.map(({ pullSecrets }) => pullSecrets.map(({ name }) => name))).toEqual([
      ["one"],
      [],
    ]);
  });

  test("whose engine breaks while a command runs gives the datum back and makes a new sandbox", async () => {
    let broken = 2;
    executor.onRun = () => {
      broken -= 1;
      if (broken >= 0) throw new NodeCondition("the engine is away");
      return undefined;
    };
    stage.gateway.add("a", "b");
    startAgent();
    await stage.reported(2);
    expect(states().filter((state) => state !== "returned")).toEqual(["success", "success"]);
    // That a sandbox could be made ready between the two said nothing of the engine.
    await soon(() => stage.gateway.troubles).toEqual(["the engine is away", null]);
    expect(executor.prepared.length).toBe(3);
    expect(executor.open).toBe(1);
  });

  test("says so again after the gateway was away", REST, async () => {
    executor.onPrepare = failing("no such image");
    stage.gateway.before = ({ path }) => {
      if (path.endsWith("/renew")) throw new Error("cut");
    };
    stage.gateway.add("a");
    startAgent();
    await soon(() => stage.gateway.requests).toContain("POST /api/v1/runner/renew");
    expect(stage.gateway.troubles).toEqual([]);
    stage.gateway.before = () => undefined;
    await soon(() => stage.gateway.troubles).toEqual(["no such image"]);
  });

  test(
    "reports a node condition, too, if the executor fails in a way that nobody foresaw",
    REST,
    async () => {
      let failures = 1;
      executor.onPrepare = () => {
        failures -= 1;
        if (failures >= 0) throw new Error("EMFILE");
      };
      stage.gateway.add("a");
      startAgent();
      await stage.reported(1);
      expect(states()).toEqual(["returned", "success"]);
      await soon(() => stage.gateway.troubles).toEqual(["commands can't be run: EMFILE", null]);
    },
  );
});

describe("an image that takes long to pull", () => {
  test("holds up no datum: they are given back, and asked for again when it is there", REST, async () => {
    const { promise: pulled, resolve: letPull } = Promise.withResolvers<void>();
    executor.onPrepare = () => pulled;
    stage.gateway.add("a");
    startAgent();
    await soon(states).toEqual(["returned"]);
    expect(stage.gateway.left).toEqual([]);
    letPull();
    await stage.reported(1);
    expect(states()).toEqual(["returned", "success"]);
    expect(stage.gateway.troubles).toEqual([]);
  });

  test("is not pulled to its end where the agent is to end", async () => {
    executor.onPrepare = ({ signal }) =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    stage.gateway.add("a");
    const agent = startAgent();
    await soon(() => executor.prepared.length).toBe(1);
    agent.drain();
    await agent.done;
    expect(states()).toEqual(["returned"]);
    expect(stage.gateway.queue).toHaveLength(1);
    expect(stage.gateway.left).toHaveLength(1);
    expect(stage.gateway.troubles).toEqual([]);
  });

  test("is pulled to its end though the datum is lost meanwhile, which then is not run", REST, async () => {
    const { promise: pulled, resolve: letPull } = Promise.withResolvers<void>();
    executor.onPrepare = () => pulled;
    let ran = 0;
    executor.onRun = () => {
      ran += 1;
      return undefined;
    };
    stage.gateway.add("a");
    startAgent();
    await soon(() => stage.gateway.held.size).toBe(1);
    stage.gateway.lose(...stage.gateway.held.keys());
    await soon(() => stage.gateway.requests).toContain("POST /api/v1/runner/renew");
    letPull();
    stage.gateway.add("b");
    await stage.reported(1);
    expect(ran).toBe(1);
    expect(executor.prepared).toHaveLength(1);
    expect(executor.prepared[0]?.signal.aborted).toBe(false);
  });
});

describe("pull secrets", () => {
  const key = (text: string): Secret => new Map([[".dockerconfigjson", Buffer.from(text)]]);
  const known: SecretSource = {
    read: async (name) => {
      if (name === "gone") throw new SecretMissing('secret "gone" is not there: looked for /secrets/gone');
      return key(name);
    },
  };

  test("are handed to the executor in their order, with what it needs else", async () => {
    stage.gateway.transform = { image: "private", cmd: ["true"], imagePullSecrets: ["one", "two"] };
    stage.gateway.add("a");
    startAgent({ secrets: known });
    await stage.reported(1);
    expect(executor.prepared).toMatchObject([
      {
        image: "private",
        pipeline: "edges",
        pullSecrets: [
          { name: "one", secret: key("one") },
          { name: "two", secret: key("two") },
        ],
      },
    ]);
  });

  test("are read again when the pipeline gets another owner, and with them the sandbox is made anew", async () => {
    stage.gateway.transform = { image: "private", cmd: ["true"], imagePullSecrets: ["one"] };
    stage.gateway.add("a");
    startAgent({ secrets: known });
    await stage.reported(1);
    stage.gateway.limited = true;
    stage.gateway.add("b");
    await stage.reported(2);
    expect(executor.prepared).toHaveLength(2);
  });

  test("are not read where nothing is pulled", async () => {
    executor = new FakeExecutor("process");
    stage.gateway.transform = { image: "private", cmd: ["true"], imagePullSecrets: ["one"] };
    stage.gateway.add("a");
    startAgent();
    await stage.reported(1);
    expect(executor.prepared[0]?.pullSecrets).toEqual([]);
    expect(states()).toEqual(["success"]);
  });

  test("that are not there end the job, naming the secret, and nothing is pulled", async () => {
    stage.gateway.transform = { image: "private", cmd: ["true"], imagePullSecrets: ["one", "gone"] };
    stage.gateway.add("a");
    startAgent({ secrets: known });
    await stage.reported(1);
    const reason = 'secret "gone" is not there: looked for /secrets/gone';
    expect(stage.gateway.outcomes).toMatchObject([{ state: "failed", endsJob: true, reason }]);
    expect(executor.prepared).toEqual([]);
    expect(stage.gateway.troubles).toEqual([]);
  });

  test("that can't be read just now are a condition of the node, and no failure", REST, async () => {
    let away = 2;
    const cluster: SecretSource = {
      read: async (name) => {
        away -= 1;
        if (away >= 0) throw new Error(`secret "${name}" could not be read: it answers 503`);
        return key(name);
      },
    };
    stage.gateway.transform = { image: "private", cmd: ["true"], imagePullSecrets: ["one"] };
    stage.gateway.add("a");
    startAgent({ secrets: cluster });
    await stage.reported(1);
    expect(states().at(-1)).toBe("success");
    expect(stage.gateway.troubles[0]).toContain('secret "one" could not be read: it answers 503');
  });
});
