// @module-tag rest
import { afterEach, describe, expect, test } from "vitest";
import { openAway } from "../../../embedded/front.ts";
import { type Gateway, startGateway } from "../../../embedded/host.ts";
import { ScrubState } from "../../../protocol/admin.ts";
import { KeyCreated } from "../../../protocol/keys.ts";
import { Control } from "../../support/control.ts";
import { sluice, sluiceOk } from "../../support/dev-server.ts";
import { foundIn } from "../../support/found-in.ts";
import { isGone } from "../../support/http.ts";
import type { Door } from "../../support/keys.ts";
import { freePort } from "../../support/ports.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { ScrubStory } from "../e2e/scrub-story.ts";

const log = { debug() {}, info() {}, warn() {}, error() {} };
const running = new Set<Gateway>();

async function start(options: { dataDir: string; maxBodyBytes?: number }): Promise<Gateway> {
  const gateway = await startGateway({ host: "127.0.0.1", port: 0, log, ...options });
  running.add(gateway);
  return gateway;
}

async function stop(gateway: Gateway): Promise<void> {
  running.delete(gateway);
  await gateway.stop();
}

function doorOf({ endpoint, rootKey }: Gateway): Door {
  return { endpoint, ...rootKey };
}

/** A gateway of which something was erased, and what nobody may find. */
async function withErased(options: { maxBodyBytes?: number } = {}) {
  const dataDir = scratchFolder();
  const gateway = await start({ dataDir, ...options });
  const story = new ScrubStory(doorOf(gateway), { repo: "people" });
  await story.put();
  await story.eraseFile();
  const { bytes, name, meta, message } = story;
  return { dataDir, gateway, secrets: [bytes, name, meta, message] };
}

afterEach(async () => {
  for (const gateway of running) await stop(gateway);
});

describe("sluice admin scrub", () => {
  test.each([
    {},
    { maxBodyBytes: 1_000_000 },
  ])("leaves nothing of what was erased while the gateway runs on, at the same address (%o)", async (options) => {
    const { dataDir, gateway, secrets } = await withErased(options);
    const said = await sluiceOk(doorOf(gateway), "admin", "scrub");
    expect(said).toMatch(/^2 databases written anew: .+, now .+\n$/);
    expect(foundIn(dataDir, secrets)).toEqual({});
    await new S3(doorOf(gateway)).put("master.people", "after", "after");
    expect(JSON.parse(await sluiceOk(doorOf(gateway), "admin", "scrub", "--all", "--json"))).toMatchObject({
      rewritten: 3,
      failed: [],
    });
    expect(String(await new S3(doorOf(gateway)).get("master.people", "after"))).toBe("after");
  });

  test("says that nothing is to be done if nothing was erased", async () => {
    const gateway = await start({ dataDir: scratchFolder() });
    await new S3(doorOf(gateway)).createBucket("master.people");
    const said = await sluiceOk(doorOf(gateway), "admin", "scrub");
    expect(said).toBe("nothing was erased since the last scrub: nothing is to be written anew\n");
  });

  test("does it by itself on a folder on which no gateway runs, without a key, and asks the one that does", async () => {
    const { dataDir, gateway, secrets } = await withErased();
    await stop(gateway);
    const nobody = {
      endpoint: "http://127.0.0.1:1",
      accessKeyId: "nobody",
      secretAccessKey: "nothing-at-all",
    };
    expect(await sluiceOk(nobody, "admin", "scrub", "--data", dataDir)).toMatch(/^2 databases written anew/);
    expect(foundIn(dataDir, secrets)).toEqual({});
    await start({ dataDir });
    const asked = await sluice(nobody, "admin", "scrub", "--all", "--json", "--data", dataDir);
    expect(JSON.parse(String(asked.stdout))).toMatchObject({ state: "done", rewritten: 3 });
    const none = await sluice(nobody, "admin", "scrub", "--data", scratchFolder());
    expect(none).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("is no data folder of a gateway"),
    });
  });

  test("is for keys of level admin that are not limited to repos", async () => {
    const gateway = await start({ dataDir: scratchFolder() });
    const control = new Control(doorOf(gateway));
    for (const body of [{ level: "write" }, { level: "admin", repos: ["people"] }]) {
      const { id, secret } = await control.call("POST", "/keys", { body, answers: KeyCreated });
      const limited = { endpoint: gateway.endpoint, accessKeyId: id, secretAccessKey: secret };
      const { stderr } = await sluice(limited, "admin", "scrub");
      expect(stderr).toMatch(/^error: /);
      expect((await new Control(limited).ask("GET", "/admin/scrub")).status).toBe(403);
    }
    expect(await control.call("GET", "/admin/scrub", { answers: ScrubState })).toMatchObject({
      state: "none",
    });
  });

  test("loses nothing that clients write meanwhile: they are refused for a while, and ask again", async () => {
    const { dataDir, gateway, secrets } = await withErased();
    const s3 = new S3(doorOf(gateway));
    const acknowledged: string[] = [];
    const scrubbing = sluiceOk(doorOf(gateway), "admin", "scrub");
    let isOver = false;
    const over = scrubbing.finally(() => {
      isOver = true;
    });
    let refused = 0;
    for (let n = 0; !isOver; n++) {
      try {
        await s3.put("master.people", `file-${n}`, `${n}`);
        acknowledged.push(`file-${n}`);
      } catch (error) {
        if (!isGone(error) && !String(error).includes("got 503")) throw error;
        refused++;
      }
    }
    await over;
    expect(refused).toBeGreaterThan(0);
    expect(acknowledged.length).toBeGreaterThan(0);
    expect(await s3.keys("master.people")).toEqual(expect.arrayContaining(acknowledged));
    expect(foundIn(dataDir, secrets)).toEqual({});
  });
});

describe("a gateway that is away for a scrub", () => {
  test("answers 503 that says when to ask again, to each kind of client in its form", async () => {
    const port = await freePort();
    const away = await openAway({ host: "127.0.0.1", port });
    const ask = async (path: string, method = "GET") => {
      const answer = await fetch(`http://127.0.0.1:${port}${path}`, { method });
      const { status, headers } = answer;
      return [status, headers.get("retry-after"), headers.get("content-type"), await answer.text()];
    };
    expect(await ask("/master.people/a")).toEqual([
      ...[503, "2", "application/xml"],
      expect.stringContaining("<Code>ServiceUnavailable</Code>"),
    ]);
    expect(await ask("/api/v1/jobs")).toEqual([
      ...[503, "2", "application/json"],
      expect.stringContaining('"code":"Unavailable"'),
    ]);
    expect(await ask("/master.people/a", "HEAD")).toEqual([503, "2", "application/xml", ""]);
    // Somebody else has the address.
    expect(await openAway({ host: "127.0.0.1", port })).toBeUndefined();
    await away?.close();
  });
});
