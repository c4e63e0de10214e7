import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { endOrphan, workerdPid } from "../../../embedded/workerd/workerd.ts";
import { healthy, ROOT } from "../../support/dev-server.ts";
import { eventually } from "../../support/eventually.ts";
import { type Door, doorVariables, ROOT_KEY } from "../../support/keys.ts";
import { freePort } from "../../support/ports.ts";
import { type Started, start } from "../../support/processes.ts";
import { S3 } from "../../support/s3.ts";
import { scratchFolder } from "../../support/scratch.ts";
import { REST } from "../../support/suite.ts";

const started = new Set<Started>();

afterEach(async () => {
  for (const process of started) await process.stop();
  started.clear();
});

interface Place {
  readonly data: string;
  readonly door: Door;
}

async function newPlace(): Promise<Place> {
  return { data: scratchFolder(), door: { endpoint: `http://127.0.0.1:${await freePort()}`, ...ROOT_KEY } };
}

function launch({ data, door }: Place): Started {
  const port = new URL(door.endpoint).port;
  const command = [process.execPath, join(ROOT, "bin/sluice.js"), "dev", "--runners", "0", "--port", port];
  const launched = start([...command, "--data", data], { env: doorVariables(door) });
  started.add(launched);
  return launched;
}

async function launchHealthy(place: Place): Promise<Started> {
  const launched = launch(place);
  await healthy(place.door.endpoint, launched);
  // It may be healthy a moment before it has written its greeting, the last thing of the start.
  await eventually("the gateway has greeted", () => launched.output().includes(place.door.endpoint));
  return launched;
}

/** The status with which a gateway answers a CONNECT, sent as a proxy's client would. */
function connectStatus(endpoint: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(endpoint).port), "127.0.0.1");
    let text = "";
    socket.setEncoding("utf8").on("data", (part) => {
      text += part;
    });
    socket.on("error", reject).on("close", () => resolve(Number(/^HTTP\/1\.1 (\d{3}) /.exec(text)?.[1])));
    socket.write("CONNECT example.org:443 HTTP/1.1\r\nHost: example.org:443\r\n\r\n");
  });
}

/** Whether a process runs; a dead one that nobody has collected yet does not. */
function alive(pid: number): boolean {
  try {
    return !/^\d+ \(.*\) [ZX]/.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
}

/** A dying process has none any more, before it has lost its files. */
function hasEnvironment(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/environ`, "utf8") !== "";
  } catch {
    return false;
  }
}

describe.runIf(process.platform === "linux")("the processes of the embedded gateway", () => {
  test("end together, with 0, at SIGTERM", async () => {
    const place = await newPlace();
    const gateway = await launchHealthy(place);
    const runtime = workerdPid(place.data) ?? 0;
    expect(alive(runtime)).toBe(true);
    process.kill(gateway.pid, "SIGTERM");
    expect((await gateway.ended).code).toBe(0);
    await eventually("the runtime has ended", () => !alive(runtime));
  });

  test("open no tunnel: a CONNECT is refused, and leaves no error line in the log", async () => {
    const place = await newPlace();
    const gateway = await launchHealthy(place);
    expect(await connectStatus(place.door.endpoint)).toBeGreaterThanOrEqual(400);
    expect(await connectStatus(place.door.endpoint)).toBeGreaterThanOrEqual(400);
    process.kill(gateway.pid, "SIGTERM");
    await gateway.ended;
    expect(gateway.output()).not.toMatch(/ERROR|connect\(\)/);
  });

  test(
    "end together when the host is killed with -9, and a new start has what was acknowledged",
    REST,
    async () => {
      const place = await newPlace();
      const gateway = await launchHealthy(place);
      const s3 = new S3(place.door);
      await s3.createBucket("master.crash");
      await s3.put("master.crash", "kept.txt", "kept");
      const runtime = workerdPid(place.data) ?? 0;
      process.kill(gateway.pid, "SIGKILL");
      await gateway.ended;
      await eventually("the runtime has ended", () => !alive(runtime));

      await launchHealthy(place);
      expect((await s3.get("master.crash", "kept.txt"))?.toString()).toBe("kept");
    },
  );

  test("are replaced by a start that comes at once after a kill -9", REST, async () => {
    const place = await newPlace();
    for (let round = 0; round < 2; round++) {
      const gateway = await launchHealthy(place);
      process.kill(gateway.pid, "SIGKILL");
      await gateway.ended;
    }
    await launchHealthy(place);
  });

  test("keep one data folder to one gateway: the second ends with 1 and names the first", REST, async () => {
    const place = await newPlace();
    const first = await launchHealthy(place);
    const second = launch({
      ...place,
      door: { ...place.door, endpoint: `http://127.0.0.1:${await freePort()}` },
    });
    const { code, stderr } = await second.ended;
    expect(code).toBe(1);
    expect(stderr).toMatch(
      new RegExp(`^error: the data folder .* is in use by the gateway with pid ${first.pid} at`),
    );
  });

  test("outlive a killed runtime: the host starts another, over the same data", REST, async () => {
    const place = await newPlace();
    await launchHealthy(place);
    const s3 = new S3(place.door);
    await s3.createBucket("master.crash");
    await s3.put("master.crash", "kept.txt", "kept");
    const runtime = workerdPid(place.data) ?? 0;
    process.kill(runtime, "SIGKILL");
    const kept = await eventually("the new runtime answers", () => s3.get("master.crash", "kept.txt"));
    expect(kept.toString()).toBe("kept");
    expect(workerdPid(place.data)).not.toBe(runtime);
  });
});

describe.runIf(process.platform === "linux")("a runtime that was left over", () => {
  async function leave(data: string, env: Record<string, string>): Promise<{ pid: number; port: number }> {
    const port = await freePort();
    // With so much memory, a thread is still ending when the first of its process has ended.
    const script = `globalThis.held = Buffer.alloc(512 << 20, 1);
      require("node:net").createServer().listen(${port}, "127.0.0.1", () => console.log("up"));`;
    const left = spawn(process.execPath, ["-e", script], { env, stdio: ["ignore", "pipe", "ignore"] });
    // A process that was forked just now still has the environment of its parent.
    await once(left.stdout, "data");
    writeFileSync(join(data, "workerd.pid"), `${left.pid}\n`);
    return { pid: left.pid ?? 0, port };
  }

  async function listenOnce(port: number): Promise<void> {
    const server = createServer().listen(port, "127.0.0.1");
    await once(server, "listening");
    server.close();
  }

  test("is ended by the next start, and its port is free then", REST, async () => {
    const data = scratchFolder();
    const { pid, port } = await leave(data, { SLUICE_WORKERD_PID_FILE: join(data, "workerd.pid") });
    await endOrphan(data);
    expect(alive(pid)).toBe(false);
    await listenOnce(port);
  });

  test("and is dying already is waited for, since it still has its port", REST, async () => {
    const data = scratchFolder();
    const { pid, port } = await leave(data, { SLUICE_WORKERD_PID_FILE: join(data, "workerd.pid") });
    process.kill(pid, "SIGKILL");
    // Without a turn of the loop between: its port is closed soon after.
    while (hasEnvironment(pid));
    await endOrphan(data);
    await listenOnce(port);
  });

  test("whose pid now belongs to a stranger is let be", REST, async () => {
    const data = scratchFolder();
    const { pid } = await leave(data, {});
    await endOrphan(data);
    expect(alive(pid)).toBe(true);
    process.kill(pid, "SIGKILL");
  });
});
