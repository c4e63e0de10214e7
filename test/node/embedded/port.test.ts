import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { describe, expect, test } from "vitest";
import { HostError } from "../../../embedded/host-error.ts";
import { claimPort } from "../../../embedded/port.ts";

const HOST = "127.0.0.1";
const RANGE = "/proc/sys/net/ipv4/ip_local_port_range";

/** Listens on a port, unless another program of the machine does already. */
async function squat(port: number): Promise<{ close(): Promise<unknown> }> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) =>
      error.code === "EADDRINUSE" ? resolve() : reject(error),
    );
    server.listen(port, HOST, resolve);
  });
  return { close: () => new Promise((resolve) => server.close(resolve)) };
}

describe("a port that nobody asked for", () => {
  test.runIf(existsSync(RANGE))("is none that the system gives to connections by itself", async () => {
    const [first] = readFileSync(RANGE, "utf8").trim().split(/\s+/).map(Number);
    for (let n = 0; n < 20; n += 1) expect(await claimPort(HOST, 0)).toBeLessThan(first as number);
  });

  test("is another one each time, so that two that start side by side don't meet", async () => {
    const ports = await Promise.all(Array.from({ length: 50 }, () => claimPort(HOST, 0)));
    expect(new Set(ports).size).toBe(50);
  });

  test("is never one that somebody listens on", async () => {
    const next = (await claimPort(HOST, 0)) + 1;
    const squatters = await Promise.all([squat(next), squat(next + 1)]);
    try {
      expect([next, next + 1]).not.toContain(await claimPort(HOST, 0));
    } finally {
      await Promise.all(squatters.map((squatter) => squatter.close()));
    }
  });
});

test("a port that was asked for is that one, or an error that says what to do", async () => {
  const port = await claimPort(HOST, 0);
  expect(await claimPort(HOST, port)).toBe(port);
  const squatter = await squat(port);
  try {
    await expect(claimPort(HOST, port)).rejects.toThrow(HostError);
    await expect(claimPort(HOST, port)).rejects.toThrow(
      `${HOST}:${port} is in use: choose another with --port`,
    );
  } finally {
    await squatter.close();
  }
});
