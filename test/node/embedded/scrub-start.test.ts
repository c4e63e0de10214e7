import { afterEach, describe, expect, test } from "vitest";
import { type Gateway, startGateway } from "../../../embedded/host.ts";
import { eventually } from "../../support/eventually.ts";
import { foundIn } from "../../support/found-in.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { tablesNaming } from "../../support/stored-state.ts";
import { REST } from "../../support/suite.ts";
import { ScrubStory } from "../e2e/scrub-story.ts";

const running = new Set<Gateway>();
const lines: string[] = [];
const say = (line: string): void => void lines.push(line);
const log = { debug() {}, info: say, warn: say, error: say };

async function start(dataDir: string): Promise<{ gateway: Gateway; story: ScrubStory }> {
  // So that jobs which ran with what was erased are soon past.
  const settings = { SLUICE_KEEP_JOBS: "1" };
  const gateway = await startGateway({ host: "127.0.0.1", port: 0, dataDir, log, settings });
  running.add(gateway);
  const door = { endpoint: gateway.endpoint, ...gateway.rootKey };
  return { gateway, story: new ScrubStory(door, { repo: "people" }) };
}

async function stop(gateway: Gateway): Promise<void> {
  running.delete(gateway);
  await gateway.stop();
}

afterEach(async () => {
  lines.splice(0);
  for (const gateway of running) await stop(gateway);
});

describe("a gateway that starts", () => {
  test("leaves nothing in its folder of a small file that was erased, of its name, its metadata and a redacted message", async () => {
    const dataDir = scratchFolder();
    const { gateway, story } = await start(dataDir);
    await story.put();
    await story.eraseFile();
    await stop(gateway);
    const { bytes, name, meta, message } = story;
    const secrets = [bytes, name, meta, message];
    expect(Object.keys(foundIn(dataDir, secrets)).sort()).toEqual(secrets.sort());
    await stop((await start(dataDir)).gateway);
    expect(foundIn(dataDir, secrets)).toEqual({});
    expect(lines).toEqual([expect.stringMatching(/^scrub: 2 databases were written anew/)]);
  });

  test(
    "leaves nothing of it in forks and pipelines either, once those have heard of it and jobs that ran with it are past",
    REST,
    async () => {
      const dataDir = scratchFolder();
      const { gateway, story } = await start(dataDir);
      const { secrets } = story;
      await story.tell();
      const jobs = 3;
      await story.erase({ jobs });
      await eventually("no row names it", () => {
        const naming = tablesNaming(dataDir, secrets);
        if (naming.length > 0) throw new Error(`these name it: ${naming.join(", ")}`);
        return true;
      });
      await stop(gateway);
      expect(Object.keys(foundIn(dataDir, secrets)).sort()).toEqual(secrets.sort());
      const again = await start(dataDir);
      await again.story.verify({ jobs });
      await stop(again.gateway);
      expect(foundIn(dataDir, secrets)).toEqual({});
    },
  );
});
