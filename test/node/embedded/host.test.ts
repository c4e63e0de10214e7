import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { request } from "node:http";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { type Gateway, type GatewayOptions, startGateway } from "../../../embedded/host.ts";
import { HostError } from "../../../embedded/host-error.ts";
import { KeyCreated, KeyPage } from "../../../protocol/keys.ts";
import { Control } from "../../support/control.ts";
import { exchange, signatureHeaders } from "../../support/http.ts";
import type { Door } from "../../support/keys.ts";
import { freePort } from "../../support/ports.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";

const log = { debug() {}, info() {}, warn() {}, error() {} };
const running = new Set<Gateway>();

async function start(options: Partial<GatewayOptions> & { dataDir: string }): Promise<Gateway> {
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

/** How many objects of a class have files. */
function objectsOf(dataDir: string, className: string): number {
  const files = readdirSync(join(dataDir, "state", "do", `sluice-${className}`));
  return files.filter((file) => file.endsWith(".sqlite") && file !== "metadata.sqlite").length;
}

afterEach(async () => {
  for (const gateway of running) await stop(gateway);
});

describe("the embedded gateway", () => {
  test("is healthy when it says that it has started, and has a key for its runners that is in no list and no more than theirs", async () => {
    const gateway = await start({ dataDir: scratchFolder() });
    const { endpoint, runnerKey } = gateway;
    expect((await fetch(`${endpoint}/healthz`)).status).toBe(200);
    const runner = new Control({ endpoint, ...runnerKey });
    const beat = { node: "own", executor: "process", capacity: 1 };
    expect(await runner.ask("POST", "/runner/heartbeat", beat)).toMatchObject({ status: 200 });
    expect(await runner.ask("GET", "/repos")).toMatchObject({ status: 403 });
    const { keys } = await new Control(doorOf(gateway)).call("GET", "/keys", { answers: KeyPage });
    expect(keys).toEqual([]);
  });

  test("makes a random root key once and lets only its owner read it", REST, async () => {
    const dataDir = scratchFolder();
    const first = await start({ dataDir });
    const file = join(dataDir, "root-key.json");
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(first.rootKey);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await stop(first);
    const again = await start({ dataDir });
    expect(again.rootKey).toEqual(first.rootKey);
    const other = await start({ dataDir: scratchFolder() });
    expect(other.rootKey).not.toEqual(first.rootKey);
  });

  test("keeps its folders to its owner, also in a folder that others may look into", async () => {
    const dataDir = scratchFolder();
    mkdirSync(join(dataDir, "blobs"));
    for (const folder of [dataDir, join(dataDir, "blobs")]) chmodSync(folder, 0o755);
    await start({ dataDir });
    const modes = readdirSync(dataDir, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => [name, statSync(join(dataDir, name)).mode & 0o777]);
    expect(Object.fromEntries(modes)).toEqual({ blobs: 0o700, console: 0o700, state: 0o700 });
    // It is the user's: other things may be in it.
    expect(statSync(dataDir).mode & 0o777).toBe(0o755);
  });

  test("makes a random encryption key once, which only its owner may read and which keeps access keys over a restart", async () => {
    const dataDir = scratchFolder();
    const first = await start({ dataDir });
    const file = join(dataDir, "encryption-key.json");
    const kept = readFileSync(file, "utf8");
    expect(Buffer.from(JSON.parse(kept).encryptionKey, "base64")).toHaveLength(32);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const { id, secret } = await new Control(doorOf(first)).call("POST", "/keys", {
      body: { level: "admin" },
      answers: KeyCreated,
    });
    await stop(first);
    const { endpoint } = await start({ dataDir });
    expect(readFileSync(file, "utf8")).toBe(kept);
    const s3 = new S3({ endpoint, accessKeyId: id, secretAccessKey: secret });
    expect(await s3.buckets()).toEqual([]);
  });

  test("leaves nothing on the disk of buckets and pipelines whose names somebody made up", REST, async () => {
    const dataDir = scratchFolder();
    const gateway = await start({ dataDir });
    const [root, s3] = [new Control(doorOf(gateway)), new S3(doorOf(gateway))];
    const { id, secret } = await root.call("POST", "/keys", { body: { level: "read" }, answers: KeyCreated });
    const door = { endpoint: gateway.endpoint, accessKeyId: id, secretAccessKey: secret };
    const probe = async (target: string) => {
      const headers = await signatureHeaders(door, { method: "GET", target });
      const { status, body } = await exchange(door.endpoint, { method: "GET", target, headers });
      return [status, /<Code>(\w+)|"code":"(\w+)"/.exec(body.toString())?.slice(1).join("")];
    };
    await s3.createBucket("master.there");
    for (let n = 0; n < 20; n += 1) {
      expect(await probe(`/master.made-up-${n}?list-type=2`)).toEqual([404, "NoSuchBucket"]);
      expect(await probe(`/master.made-up-${n}/key`)).toEqual([404, "NoSuchBucket"]);
      expect(await probe(`/api/v1/pipelines/made-up-${n}`)).toEqual([404, "NoSuchPipeline"]);
      expect(await probe(`/api/v1/repos/made-up-${n}/branches/b/commits`)).toEqual([404, "NoSuchBranch"]);
    }
    // The one that was made, and the one that answers for all that were not, of what is not answered without any.
    expect(objectsOf(dataDir, "Branch")).toBe(2);
    expect(objectsOf(dataDir, "Pipeline")).toBe(0);
    // A bucket is there for everybody as soon as it was made, whatever was asked for before and meanwhile.
    const names = Array.from({ length: 20 }, (_, n) => `master.made-up-${n}`);
    for (const name of names) {
      const asked = Array.from({ length: 5 }, () => probe(`/${name}?list-type=2`));
      await s3.createBucket(name);
      expect(await probe(`/${name}?list-type=2`)).toEqual([200, undefined]);
      await Promise.all(asked);
    }
    await stop(gateway);
    const again = await start({ dataDir });
    expect((await new S3(doorOf(again)).buckets()).toSorted()).toEqual(["master.there", ...names].toSorted());
  });

  test("refuses the access keys that were made under another encryption key, and goes on", REST, async () => {
    const dataDir = scratchFolder();
    const settings = { SLUICE_ENCRYPTION_KEY: Buffer.alloc(32, 1).toString("base64") };
    const first = await start({ dataDir, settings });
    expect(existsSync(join(dataDir, "encryption-key.json"))).toBe(false);
    const { id, secret } = await new Control(doorOf(first)).call("POST", "/keys", {
      body: { level: "admin" },
      answers: KeyCreated,
    });
    await stop(first);
    const lines: string[] = [];
    const other = await start({ dataDir, log: { ...log, error: (line: string) => lines.push(line) } });
    const s3 = new S3({ endpoint: other.endpoint, accessKeyId: id, secretAccessKey: secret });
    const answer = await s3.ask("GET", "/");
    expect(answer.status).toBe(403);
    expect(answer.text).toContain("InvalidAccessKeyId");
    expect(lines.join("\n")).toContain(`the access key ${id} can't be used: SLUICE_ENCRYPTION_KEY is not`);
    expect(await new S3(doorOf(other)).buckets()).toEqual([]);
  });

  test("hands its settings to the gateway", REST, async () => {
    const gateway = await start({ dataDir: scratchFolder(), settings: { SLUICE_DOMAIN: "s3.test" } });
    await new S3(doorOf(gateway)).createBucket("master.virtual");
    const ask = {
      method: "PUT",
      target: "/healthz",
      headers: { host: "master.virtual.s3.test" },
      body: "key",
    };
    const headers = await signatureHeaders(
      { ...doorOf(gateway), endpoint: "http://master.virtual.s3.test" },
      ask,
    );
    const answer = await exchange(gateway.endpoint, {
      ...ask,
      headers: { ...headers, host: ask.headers.host },
    });
    expect(answer.status, answer.text).toBe(200);
    expect((await new S3(doorOf(gateway)).get("master.virtual", "healthz"))?.toString()).toBe("key");
  });

  test("takes a given root key and keeps none", REST, async () => {
    const dataDir = scratchFolder();
    const rootKey = { accessKeyId: "given-key", secretAccessKey: "given-secret" };
    const gateway = await start({ dataDir, rootKey });
    expect(gateway.rootKey).toEqual(rootKey);
    expect(existsSync(join(dataDir, "root-key.json"))).toBe(false);
    await new S3(doorOf(gateway)).createBucket("master.given");
  });

  test("says what is wrong with a damaged key file and leaves it as it is", REST, async () => {
    const dataDir = scratchFolder();
    const file = join(dataDir, "root-key.json");
    writeFileSync(file, "{}");
    await expect(start({ dataDir })).rejects.toThrow(file);
    expect(readFileSync(file, "utf8")).toBe("{}");
  });

  test("keeps files, small and large, over a restart", REST, async () => {
    const dataDir = scratchFolder();
    const first = await start({ dataDir });
    const large = Buffer.alloc(9_000_000, "large ");
    const s3 = new S3(doorOf(first));
    await s3.createBucket("master.kept");
    await s3.put("master.kept", "small.txt", "small");
    await s3.put("master.kept", "large.bin", large);
    await stop(first);

    const again = new S3(doorOf(await start({ dataDir })));
    expect((await again.get("master.kept", "small.txt"))?.toString()).toBe("small");
    expect((await again.get("master.kept", "large.bin"))?.equals(large)).toBe(true);
  });

  test("refuses a second gateway over the same data and names the first", REST, async () => {
    const dataDir = scratchFolder();
    const first = await start({ dataDir });
    const second = start({ dataDir });
    await expect(second).rejects.toThrow(HostError);
    await expect(second).rejects.toThrow(`pid ${process.pid} at ${first.endpoint}`);
    expect((await fetch(`${first.endpoint}/healthz`)).status).toBe(200);
  });

  test("refuses a port that is in use and gives the data folder up again", REST, async () => {
    const dataDir = scratchFolder();
    const port = await freePort();
    const squatter = createServer();
    await new Promise<void>((resolve) => squatter.listen(port, "127.0.0.1", resolve));
    await expect(start({ dataDir, port })).rejects.toThrow(`127.0.0.1:${port} is in use`);
    await new Promise((resolve) => squatter.close(resolve));
    await start({ dataDir, port });
  });

  test("refuses an address that is not this machine's", REST, async () => {
    await expect(start({ dataDir: scratchFolder(), host: "192.0.2.1" })).rejects.toThrow("--host");
  });

  test("leaves signals to whoever started it", REST, async () => {
    const before = process.listenerCount("SIGTERM");
    await start({ dataDir: scratchFolder() });
    expect(process.listenerCount("SIGTERM")).toBe(before);
  });

  test("answers `Expect: 100-continue` before the body is sent", async () => {
    const door = doorOf(await start({ dataDir: scratchFolder() }));
    await new S3(door).createBucket("master.expect");
    const ask = { method: "PUT", target: "/master.expect/key", body: "waited for" };
    const headers = await signatureHeaders(door, ask);
    const status = await new Promise((resolve, reject) => {
      const put = request(`${door.endpoint}${ask.target}`, {
        method: "PUT",
        headers: { ...headers, "content-length": ask.body.length, expect: "100-continue" },
      });
      // The body goes only when the gateway has asked for it.
      put.on("continue", () => put.end(ask.body));
      put.on("response", (answer) => resolve(answer.statusCode));
      put.on("error", reject);
      put.flushHeaders();
    });
    expect(status).toBe(200);
    expect((await new S3(door).get("master.expect", "key"))?.toString()).toBe("waited for");
  });
});
