import { env } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { answer, clientOf, type Facets } from "../../../worker/objects/facets.ts";
import type { PipelineApi } from "../../../worker/pipeline/contract.ts";
import { specOf } from "../pipeline/support.ts";

interface CounterApi {
  readonly count: { up(by: number, note?: string): Promise<number> };
}

const FACETS: Facets<CounterApi, { from: number }> = {
  count: { up: async ({ from }, by) => from + by },
};

async function failureOf(call: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await call();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return undefined;
}

describe("the facets of an object", () => {
  it("are called with one message a call, which has what the object gives to all before the arguments", async () => {
    const messages: unknown[] = [];
    const client = clientOf<CounterApi>({
      async call(name, args) {
        messages.push([name, args]);
        return await answer(FACETS, { name, args, reach: { from: 40 } });
      },
    });
    // Neither the client nor a facet is taken for a promise.
    expect(await (await (await client).count).up(2)).toBe(42);
    expect(messages).toEqual([["count.up", [2]]]);
  });

  it("have what is written in their tables, and nothing that the tables or the object have beside that", async () => {
    const stub = env.PIPELINE.getByName("facets-listed");
    expect(await stub.call("jobs.list", [{ limit: 1 }])).toEqual({ jobs: [], next: null });
    const unlisted = ["", "jobs", "jobs.", "list", "alarm", "call", "jobs.none", "jobs.constructor"];
    unlisted.push(
      "jobs.toString",
      "jobs.__proto__",
      "constructor.assign",
      "__proto__.toString",
      "engine.resume",
    );
    for (const name of unlisted) {
      expect(await failureOf(() => stub.call(name, [{}]))).toBe(`the object has no call ${name}`);
    }
  });

  it("are not reached around the object's one method", async () => {
    const stub = env.PIPELINE.getByName("facets-around") as unknown as Record<string, () => Promise<unknown>>;
    for (const name of ["jobs", "list", "inspect", "create", "reach", "engine"]) {
      expect(await failureOf(async () => stub[name]?.()), name).toContain("does not implement");
    }
  });

  it("throw to their callers as any call of an object does", async () => {
    const nobody = clientOf<PipelineApi>(env.PIPELINE.getByName(".nobody"));
    const made = () => nobody.lifecycle.create(specOf({ name: "n", globs: { a: "/*" } }));
    expect(await failureOf(made)).toBe("a call that makes an object is missing among its makers");
  });
});
