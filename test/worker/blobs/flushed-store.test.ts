import { describe, expect, test } from "vitest";
import type { HostFlush } from "../../../protocol/admin.ts";
import { NotDeletedError, type PutTogether, UnwrittenBlobError } from "../../../worker/blobs/port.ts";
import { openBlobStore } from "../../../worker/blobs/stores.ts";

/** A disk service and a host that write down what is asked of them. */
function stage({
  absent = [],
  failure = null,
}: {
  absent?: readonly string[];
  failure?: object | null;
} = {}) {
  const calls: string[] = [];
  const disk = async (url: string, { method = "GET" }: { method?: string } = {}) => {
    const name = new URL(url).pathname.slice(1);
    calls.push(`${method} ${name}`);
    return new Response(null, { status: absent.includes(name) ? 404 : 204 });
  };
  const host = async (url: string, { body, headers }: { body: string; headers: Record<string, string> }) => {
    const { written, removed }: HostFlush = JSON.parse(body);
    calls.push(`${new URL(url).pathname} ${headers.authorization} +${written} -${removed}`);
    return Response.json({ failure });
  };
  const env = {
    DISK: { fetch: disk } as unknown as Fetcher,
    HOST: { fetch: host } as unknown as Fetcher,
    SLUICE_HOST_TOKEN: "token",
  };
  return { calls, env };
}

describe("a blob store on a disk whose host flushes", () => {
  test("has a blob flushed before it is said to be written", async () => {
    const { calls, env } = stage();
    await openBlobStore(env).put("b/one", new Uint8Array(1));
    expect(calls).toEqual(["PUT b/one", "/flush token +b/one -"]);
  });

  test("has blobs that are put together flushed together, without their bytes", async () => {
    const { calls, env } = stage();
    const names: string[] = [];
    const gate = Promise.withResolvers<void>();
    let flush: ((names: readonly string[]) => Promise<void>) | undefined;
    const together: PutTogether = {
      onTaken: () => calls.push("taken"),
      finish(name, finishAll) {
        names.push(name);
        flush = finishAll;
        return gate.promise;
      },
    };
    const store = openBlobStore(env);
    const puts = [await put("b/one"), await put("b/two")];
    async function put(name: string): Promise<{ done: Promise<void> }> {
      const done = store.put(name, new Uint8Array(1), together);
      await expect.poll(() => names).toContain(name);
      return { done };
    }
    expect(calls).toEqual(["PUT b/one", "taken", "PUT b/two", "taken"]);
    await flush?.(names);
    expect(calls.at(-1)).toBe("/flush token +b/one,b/two -");
    gate.resolve();
    await Promise.all(puts.map(({ done }) => done));
  });

  test("has what it removes flushed in one call, also what an earlier call had removed already", async () => {
    const { calls, env } = stage({ absent: ["b/other"] });
    await openBlobStore(env).delete(["b/one", "b/other"]);
    expect(calls).toEqual(["DELETE b/one", "DELETE b/other", "/flush token + -b/one,b/other"]);
  });

  test("does not say that a blob is written which could not be flushed, and knows a full disk", async () => {
    const failure = { message: "ENOSPC", isFull: true };
    const store = openBlobStore(stage({ failure }).env);
    const error = await store.put("b/one", new Uint8Array(1)).catch((error) => error);
    expect(error).toBeInstanceOf(UnwrittenBlobError);
    expect(error).toMatchObject({ isDiskFull: true, message: expect.stringContaining("ENOSPC") });
  });

  test("does not say that blobs are gone whose removal could not be flushed", async () => {
    const failure = { message: "EIO", isFull: false };
    const error = await openBlobStore(stage({ failure }).env)
      .delete(["b/one", "b/other"])
      .catch((error) => error);
    expect(error).toBeInstanceOf(NotDeletedError);
    expect(error.names).toEqual(["b/one", "b/other"]);
  });

  test("asks nobody if the gateway was told not to wait for the disk, or has no host", async () => {
    const { calls, env } = stage();
    const { DISK } = env;
    for (const store of [openBlobStore({ ...env, SLUICE_SYNC: "off" }), openBlobStore({ DISK })]) {
      await store.put("b/one", new Uint8Array(1));
      await store.delete(["b/one"]);
    }
    expect(calls).toEqual(["PUT b/one", "DELETE b/one", "PUT b/one", "DELETE b/one"]);
  });
});
