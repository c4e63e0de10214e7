import { once } from "node:events";
import { readdirSync, utimesSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { removePartials } from "../../../embedded/data/folders.ts";
import { waitUntilHealthy } from "../../../embedded/health.ts";
import { scratchFolder } from "../../support/scratch.ts";

/*
 * The clock of the machine is set while a gateway starts.
 */

const HOUR_MS = 3600_000;
const DAY_MS = 24 * HOUR_MS;

describe("a gateway that starts", () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
  afterEach(() => void vi.useRealTimers());

  test.each([
    ["a day ahead", DAY_MS],
    ["an hour back", -HOUR_MS],
  ])("has as long for it as ever if the clock is set %s", async (_, byMs) => {
    let asked = 0;
    const server = createServer((_request, response) => {
      asked += 1;
      if (asked === 1) vi.setSystemTime(Date.now() + byMs);
      response.writeHead(asked < 3 ? 503 : 200).end();
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    try {
      await waitUntilHealthy(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    } finally {
      server.close();
    }
    expect(asked).toBe(3);
  });
});

describe("files that a killed runtime left", () => {
  const START = { wall: 1_800_000_000_000, steady: 5000 };
  const left = (name: string, wallMs: number, folder: string): void => {
    const path = join(folder, name);
    writeFileSync(path, "");
    utimesSync(path, wallMs / 1000, wallMs / 1000);
  };

  test.each([
    ["goes on", 0],
    ["is set an hour back", -HOUR_MS],
    ["is set a day ahead", DAY_MS],
  ])("go, and none that the present one writes, if the clock %s", async (_, byMs) => {
    const folder = scratchFolder();
    const passedMs = 60_000;
    left(".left.7.1.tmp", START.wall - 2 * HOUR_MS, folder);
    left(".before.8.1.tmp", START.wall + 1000, folder);
    left(".after.8.2.tmp", START.wall + byMs + passedMs - 1000, folder);
    const now = { wall: START.wall + byMs + passedMs, steady: START.steady + passedMs };
    await removePartials(folder, { start: START, now: () => now });
    expect(readdirSync(folder).sort()).toEqual([".after.8.2.tmp", ".before.8.1.tmp"]);
  });
});
