import { describe, expect, test } from "vitest";
import { Gate } from "../../../worker/branch/write/gate.ts";

function closedGate(waitMs: number) {
  const state = { isClosed: true };
  return { state, gate: new Gate({ isClosed: () => state.isClosed, waitMs }) };
}

const LONG_MS = 1e9;

describe("the gate for writers", () => {
  test("lets a writer through at once while it is open", async () => {
    const { state, gate } = closedGate(LONG_MS);
    state.isClosed = false;
    expect(await gate.pass(() => "done")).toBe("done");
  });

  test("lets waiting writers through in their order, until one of them closes it again", async () => {
    const { state, gate } = closedGate(LONG_MS);
    const done: number[] = [];
    const passes = [1, 2, 3].map((n) =>
      gate.pass(() => {
        done.push(n);
        if (n === 2) state.isClosed = true;
        return n;
      }),
    );
    gate.opened();
    expect(done).toEqual([]);
    state.isClosed = false;
    gate.opened();
    expect(done).toEqual([1, 2]);
    state.isClosed = false;
    gate.opened();
    expect(await Promise.all(passes)).toEqual([1, 2, 3]);
  });

  test("answers busy to a writer that waited too long, and its work is not done", async () => {
    const { state, gate } = closedGate(1);
    const done: string[] = [];
    expect(await gate.pass(() => done.push("late"))).toEqual({ ok: false, reason: "busy" });
    state.isClosed = false;
    gate.opened();
    expect(done).toEqual([]);
  });

  test("hands on what the work throws, and goes on", async () => {
    const { state, gate } = closedGate(LONG_MS);
    const failing = gate.pass(() => {
      throw new Error("no");
    });
    const next = gate.pass(() => "next");
    state.isClosed = false;
    gate.opened();
    await expect(failing).rejects.toThrow("no");
    expect(await next).toBe("next");
  });
});
