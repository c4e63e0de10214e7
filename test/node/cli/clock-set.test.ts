import { setTimeout as pause } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { type Client, GatewayError, patiently } from "../../../cli/gateway/client.ts";
import { waitDownstream } from "../../../cli/gateway/jobs/downstream.ts";
import { waitForEnd } from "../../../cli/gateway/jobs/job-wait.ts";
import { EXIT } from "../../../cli/output/failure.ts";

/*
 * The machine's clock is set while a command waits: how long it waits is by a clock that nobody sets.
 */

const HOUR_MS = 3600_000;
const JUMPS = [
  ["a day ahead", 24 * HOUR_MS],
  ["an hour back", -HOUR_MS],
] as const;
/** Longer than any test. */
const LONG_SECONDS = 600;
const SHORT_SECONDS = 0.2;

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
afterEach(() => void vi.useRealTimers());

function setClock(byMs: number): void {
  vi.setSystemTime(Date.now() + byMs);
}

/** A gateway whose clock jumps while it answers the first question, and that says of the last of so many that there is an end. */
function gateway({ jumpMs, endsAt }: { jumpMs: number; endsAt: number }) {
  let asked = 0;
  const client = {
    async get(_: unknown, path: string) {
      if (path === "/pipelines") return { pipelines: [] };
      asked += 1;
      if (asked === 1) setClock(jumpMs);
      // As the wire does.
      await pause(1);
      const ended = asked >= endsAt;
      if (path.startsWith("/jobs/"))
        return { id: "1", state: "running", reason: null, finishedAt: ended ? 1 : null };
      const unseen = { running: ended ? 0 : 1, success: 0, failure: 0, killed: 0, none: 0, unknown: 0 };
      return { unseen, named: [], seen: [], ended, more: false, next: null };
    },
  };
  return { client: client as unknown as Client, asked: () => asked };
}

const lost = () => {};
const waits = {
  job: (client: Client, timeoutSeconds: number) => waitForEnd(client, { id: "1", timeoutSeconds, lost }),
  "what came of a commit": (client: Client, timeoutSeconds: number) =>
    waitDownstream(client, {
      ...{ repo: "images", branch: "master", bucket: "master.images", commit: "c1" },
      ...{ timeoutSeconds, onSkipped: () => {}, lost },
    }),
};

describe.each(JUMPS)("a clock that is set %s", (_, jumpMs) => {
  test.each(Object.entries(waits))("ends no wait for a %s before its time", async (_what, wait) => {
    const { client, asked } = gateway({ jumpMs, endsAt: 3 });
    await wait(client, LONG_SECONDS);
    expect(asked()).toBe(3);
  });

  test.each(Object.entries(waits))("keeps no wait for a %s beyond its time", async (_what, wait) => {
    const { client } = gateway({ jumpMs, endsAt: Number.POSITIVE_INFINITY });
    await expect(wait(client, SHORT_SECONDS)).rejects.toMatchObject({ exitCode: EXIT.timeIsUp });
  });

  test("does not end the patience with a gateway that is away", async () => {
    let tries = 0;
    const ask = async () => {
      tries += 1;
      if (tries > 1) return "there";
      setClock(jumpMs);
      throw new GatewayError("away", { status: 503, code: "Unavailable" });
    };
    expect(await patiently(ask, { lost })).toBe("there");
  });
});
