import { homedir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Outcome } from "../../../protocol/runner.ts";
import { Client } from "../../../runner/gateway/client.ts";
import { Gateway } from "../../../runner/gateway/gateway.ts";
import { runnerFolders } from "../../../runner/lib/own-folders.ts";
import { FakeGateway, KEY } from "./support/fake-gateway.ts";

const folders = runnerFolders(
  { dataDirs: ["/var/lib/sluice", "/mnt/disk (1)/data"], secrets: "/var/lib/sluice-secrets" },
  { KUBECONFIG: "/opt/cluster/config:/opt/other" },
);

describe("the folders of a runner", () => {
  test.each([
    [
      "no room in /var/lib/sluice/agents/1-2/incoming for 3 bytes",
      "no room in <--data>/agents/1-2/incoming for 3 bytes",
    ],
    ["ENOENT: open '/mnt/disk (1)/data/x', then", "ENOENT: open '<--data>/x', then"],
    ["looked for /var/lib/sluice-secrets/db", "looked for <--secrets>/db"],
    ["in /var/lib/sluice, or /var/lib/sluice.", "in <--data>, or <--data>."],
    [
      `no ${join(homedir(), ".kube/config")} and no /opt/cluster/config`,
      "no <~/.kube>/config and no <KUBECONFIG>",
    ],
    [`not found: ${join(import.meta.dirname, "../../../runner/x.ts")}`, "not found: <sluice>/runner/x.ts"],
  ])("are not in what others read: %s", (words, shown) => {
    expect(folders.hide(words)).toBe(shown);
  });

  test.each([
    "/mnt/var/lib/sluice",
    "/var/lib/sluices",
    "/var/lib/sluice.old/x",
    "https://host/var/lib/sluice",
    'the working directory "/var/lib" is not there',
    "the image registry.example/var/lib/sluice:1",
  ])("are told from other names: %s", (words) => {
    expect(folders.hide(words)).toBe(words);
  });

  test("are hidden nowhere if they are the root of the file system", () => {
    const root = runnerFolders({ dataDirs: ["/"], secrets: undefined }, {});
    expect(root.hide("no room in /tmp, or /")).toBe("no room in /tmp, or /");
  });
});

describe("what a runner says to its gateway", () => {
  let fake: FakeGateway;
  let client: Client;
  let gateway: Gateway;
  const { signal } = new AbortController();

  beforeEach(async () => {
    fake = new FakeGateway();
    await fake.start();
    client = new Client({ endpoint: fake.endpoint, ...KEY });
    gateway = new Gateway(client, { hide: (words) => folders.hide(words) });
  });
  afterEach(async () => {
    await client.close();
    await fake.stop();
    expect(fake.violations).toEqual([]);
  });

  test("has none of them in reasons of datums and tasks, in remarks, and in conditions of the node", async () => {
    fake.held.set("a", { worker: "w" }).set("b", { worker: "w" });
    const work = [{ pipeline: "edges", workers: 1, running: 0, trouble: "no /var/lib/sluice" }];
    await gateway.heartbeat({ node: "n", executor: "process", capacity: 1, work }, signal);
    expect(fake.work.get("n")).toMatchObject([{ trouble: "no <--data>" }]);
    const asked = { pipeline: "edges", worker: "w", leases: [] };
    for (const trouble of ["no /var/lib/sluice", null]) await gateway.renew({ ...asked, trouble }, signal);
    await gateway.renew(asked, signal);
    expect(fake.troubles).toEqual(["no <--data>", null]);
    const outcomes: Outcome[] = [
      {
        lease: "a",
        state: "failed",
        blame: "node",
        exitCode: null,
        reason: "no /var/lib/sluice/x",
        log: "",
        millis: 1,
      },
      { lease: "b", state: "pushed", millis: 1, remark: "no /var/lib/sluice/y" },
    ];
    await gateway.finish({ pipeline: "edges", worker: "w", outcomes }, signal);
    expect(fake.outcomes).toMatchObject([{ reason: "no <--data>/x" }, { remark: "no <--data>/y" }]);
  });

  test("is no longer than the wire takes, though a name is shorter than what stands for it", async () => {
    const short = new Gateway(client, {
      hide: (words) => runnerFolders({ dataDirs: ["/d"], secrets: undefined }, {}).hide(words),
    });
    fake.held.set("a", { worker: "w" });
    const trouble = "/d ".repeat(600).trim();
    const work = [{ pipeline: "edges", workers: 1, running: 0, trouble: trouble.slice(0, 500) }];
    await short.heartbeat({ node: "n", executor: "process", capacity: 1, work }, signal);
    await short.renew({ pipeline: "edges", worker: "w", leases: [], trouble }, signal);
    const failed = {
      lease: "a",
      state: "failed",
      blame: "node",
      exitCode: null,
      log: "",
      millis: 1,
    } as const;
    const outcomes = [{ ...failed, reason: trouble }];
    await short.finish({ pipeline: "edges", worker: "w", outcomes }, signal);
    expect(fake.outcomes).toMatchObject([{ reason: expect.stringMatching(/^<--data> /) }]);
  });
});
