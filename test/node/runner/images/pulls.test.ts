import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ensureImage } from "../../../../runner/executors/container/images/ensure-image.ts";
import { PrivateImages } from "../../../../runner/executors/container/images/private-images.ts";
import { type NamedSecret, NodeCondition } from "../../../../runner/executors/executor.ts";
import { removeScratch, scratchFolder } from "../../../support/scratch.ts";
import { soon } from "../support/running.ts";
import { FakeEngine } from "./fake-engine.ts";

const IMAGE = "r.io/team/x:1";

function pullSecret(name: string, auths: Record<string, { auth: string }>): NamedSecret {
  return { name, secret: new Map([[".dockerconfigjson", Buffer.from(JSON.stringify({ auths }))]]) };
}
const login = (user: string) => ({ auth: btoa(`${user}:pw of ${user}`) });

describe("the pull of an image", () => {
  let engine: FakeEngine;
  let dataDir: string;
  let privates: PrivateImages;
  beforeEach(async () => {
    engine = new FakeEngine();
    dataDir = scratchFolder();
    privates = new PrivateImages(dataDir);
    await engine.start();
  });
  afterEach(async () => {
    removeScratch(dataDir);
    await engine.stop();
  });

  const never = new AbortController().signal;
  function ask(options: { signal?: AbortSignal; pullSecrets?: NamedSecret[]; silenceMs?: number } = {}) {
    const terms = { image: IMAGE, pullSecrets: [], privates, signal: never };
    return ensureImage({ kind: "docker", patient: engine.client }, { ...terms, ...options });
  }
  async function trouble(answer: Promise<string>): Promise<string> {
    const error = await answer.catch((error: unknown) => error);
    expect(error).toBeInstanceOf(NodeCondition);
    return (error as NodeCondition).message;
  }
  function succeed(): void {
    for (const { response, image } of engine.pulls) {
      engine.images.add(image);
      response.end('{"status":"done"}\r\n');
    }
  }

  test("is one for all who ask meanwhile, and none for who asks later", async () => {
    engine.onPull = () => undefined;
    const asked = [ask(), ask()];
    await soon(() => engine.pulls.length).toBe(1);
    asked.push(ask());
    succeed();
    expect(await Promise.all(asked)).toEqual(Array(3).fill(`id of ${IMAGE}`));
    expect(await ask()).toBe(`id of ${IMAGE}`);
    expect(engine.pulls).toHaveLength(1);
  });

  test("is not shared by those who have other credentials: they may fail where others do not", async () => {
    engine.onPull = () => undefined;
    const asked = [ask(), ask({ pullSecrets: [pullSecret("a", { "r.io": login("me") })] })];
    await soon(() => engine.pulls.length).toBe(2);
    succeed();
    await Promise.all(asked);
  });

  test("goes on when one of two leaves, and ends when both have left", async () => {
    engine.onPull = () => undefined;
    const [one, two] = [new AbortController(), new AbortController()];
    const asked = [ask({ signal: one.signal }), ask({ signal: two.signal })];
    await soon(() => engine.pulls.length).toBe(1);
    const closed = new Promise((resolve) => engine.pulls[0]?.response.once("close", resolve));
    one.abort(new Error("one"));
    await expect(asked[0]).rejects.toThrow("one");
    expect(engine.pulls[0]?.response.closed).toBe(false);
    two.abort(new Error("two"));
    await expect(asked[1]).rejects.toThrow("two");
    await closed;
  });

  test("is begun anew for who asks after all have left", async () => {
    engine.onPull = () => undefined;
    const one = new AbortController();
    const left = ask({ signal: one.signal });
    await soon(() => engine.pulls.length).toBe(1);
    one.abort(new Error("one"));
    await expect(left).rejects.toThrow("one");
    const later = ask();
    await soon(() => engine.pulls.length).toBe(2);
    succeed();
    expect(await later).toBe(`id of ${IMAGE}`);
  });

  test("tries each of the credentials that fit, in order, and then none, with user and password apart", async () => {
    engine.onPull = ({ response }) => response.writeHead(500).end('{"message":"unauthorized: no"}');
    const pullSecrets = [
      pullSecret("first", { "r.io": login("a"), "r.io/team": login("b") }),
      pullSecret("other", { "other.io": login("c") }),
      pullSecret("last", { "*.io": login("d") }),
    ];
    const told = await trouble(ask({ pullSecrets }));
    const keys = ["b", "a", "d"].map((username) => ({
      ...{ username, password: `pw of ${username}` },
      serveraddress: "r.io",
    }));
    expect(engine.pulls.map(({ auth }) => auth)).toEqual([...keys, undefined]);
    expect(told).toBe(
      `image "${IMAGE}" can't be pulled ` +
        'with the credentials of secret "first": unauthorized: no; ' +
        'with the credentials of secret "last": unauthorized: no; without credentials: unauthorized: no; 1 more failed before',
    );
  });

  test("with a key makes the image the key's: others are asked for theirs, once each, and refused without", async () => {
    const mine = [pullSecret("mine", { "r.io": login("me") })];
    const theirs = [pullSecret("theirs", { "r.io": login("they") })];
    engine.onPull = () => succeed();
    engine.onQuestion = ({ auth }) => (auth === undefined ? "unauthorized: no" : undefined);
    await ask({ pullSecrets: mine });
    for (const _ of [1, 2]) await ask({ pullSecrets: mine });
    expect(engine.questions).toEqual([]);
    for (const _ of [1, 2]) await ask({ pullSecrets: theirs });
    expect(engine.questions).toMatchObject([{ image: IMAGE, auth: { username: "they" } }]);
    expect(await trouble(ask())).toBe(
      `image "${IMAGE}" is on this node, pulled with another pipeline's key, and its registry does not give it to this one without credentials: unauthorized: no`,
    );
    expect(engine.pulls).toHaveLength(1);
  });

  test("with a key is asked about by each digest that the engine has it by, until the registry gives one to the key", async () => {
    const byDigest = ["a", "b", "c"].map((digit) => `r.io/team/x@sha256:${digit.repeat(64)}`);
    const elsewhere = [`r.io/other/x@sha256:${"b".repeat(64)}`, `q.io/team/x@sha256:${"b".repeat(64)}`];
    engine.onPull = () => succeed();
    await ask({ pullSecrets: [pullSecret("mine", { "r.io": login("me") })] });
    engine.digests.set(IMAGE, [...elsewhere, ...byDigest]);
    engine.onQuestion = ({ image, auth }) =>
      auth !== undefined && image === byDigest[1] ? undefined : "manifest unknown";
    expect(await trouble(ask())).toContain("without credentials: manifest unknown");
    const asked = () => engine.questions.splice(0).map(({ image }) => image);
    expect(asked()).toEqual(byDigest);
    expect(await ask({ pullSecrets: [pullSecret("theirs", { "r.io": login("they") })] })).toBe(
      `id of ${IMAGE}`,
    );
    expect(asked()).toEqual(byDigest.slice(0, 2));
    expect(engine.pulls).toHaveLength(1);
  });

  test("with a key keeps nobody waiting whose key a silent registry does not judge", async () => {
    engine.onPull = () => succeed();
    await ask({ pullSecrets: [pullSecret("mine", { "r.io": login("me") })] });
    engine.onQuestion = () => "silence";
    expect(await trouble(ask({ silenceMs: 100 }))).toContain("nothing was heard of it for 0.1 s");
  });

  test("without a key, and one with a key that failed, close the image to nobody", async () => {
    engine.onPull = ({ auth, response }) => {
      if (auth === undefined) succeed();
      else response.writeHead(500).end('{"message":"unauthorized: no"}');
    };
    await ask({ pullSecrets: [pullSecret("bad", { "r.io": login("a") })] });
    await ask();
    expect(engine.questions).toEqual([]);
  });

  test("with a key leaves a mark before it is begun, which nothing of the key is in", async () => {
    let marks: string[] = [];
    engine.onPull = ({ auth, response }) => {
      if (auth !== undefined) marks = filesBelow(dataDir);
      response.destroy();
    };
    await trouble(ask({ pullSecrets: [pullSecret("mine", { "r.io": login("me") })] }));
    expect(marks).toEqual(["r.io/team/x"]);
  });

  test("tries no other credentials where the registry can't be reached", async () => {
    engine.onPull = ({ response }) => response.writeHead(500).end('{"message":"dial tcp: i/o timeout"}');
    await trouble(ask({ pullSecrets: [pullSecret("a", { "r.io": login("a") })] }));
    expect(engine.pulls).toHaveLength(1);
  });

  test("has failed where its stream says so, though it began well", async () => {
    const records = [
      '{"status":"Pulling \u00e9"}',
      '{"errorDetail":{"message":"gone \u00e9"},"error":"gone \u00e9"}',
    ];
    const bytes = Buffer.from(records.join("\n"));
    engine.onPull = ({ response }) => {
      // Cut within a character and a record.
      response.write(bytes.subarray(0, 20));
      setImmediate(() => response.end(bytes.subarray(20)));
    };
    expect(await trouble(ask())).toBe(`image "${IMAGE}" can't be pulled without credentials: gone \u00e9`);
  });

  test("has failed where the engine does not have the image afterwards", async () => {
    expect(await trouble(ask())).toContain("was pulled, but the container engine does not have it");
  });

  test("has failed where the engine hangs up", async () => {
    engine.onPull = ({ response }) => {
      response.write('{"status":"Pulling"}\n');
      setImmediate(() => response.destroy());
    };
    expect(await trouble(ask())).toContain(`image "${IMAGE}" can't be pulled without credentials: `);
  });

  test("ends where nothing is heard of it", async () => {
    engine.onPull = ({ response }) => response.write('{"status":"Pulling"}\n');
    expect(await trouble(ask({ silenceMs: 200 }))).toContain("nothing was heard of it for 0.2 s");
  });

  test("says no more than fits, however much the registry says", async () => {
    engine.onPull = ({ response }) => response.writeHead(500).end(`<html>${"x\n".repeat(100_000)}`);
    const pullSecrets = [pullSecret("a", { "r.io": login("a") }), pullSecret("b", { "r.io": login("b") })];
    const told = await trouble(ask({ pullSecrets }));
    expect(told.length).toBeLessThan(1900);
    expect(told).not.toContain("\n");
  });

  test("can't even be asked for where the engine is away", async () => {
    await engine.stop();
    expect(await trouble(ask())).toBe(
      `the container engine can't be asked for image "${IMAGE}": it does not answer (ENOENT)`,
    );
  });
});

/** What is in the files below a folder. */
function filesBelow(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => readFileSync(join(entry.parentPath, entry.name), "utf8"));
}
