import { env } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import worker from "../../worker/index.ts";

/** What the build made. */
const FILES: Readonly<Record<string, string>> = { "index.html": "<page>", "main-AB12.js": "run()" };

const assets = {
  async fetch(url: string) {
    const text = FILES[new URL(url).pathname.slice(1)];
    return text === undefined ? new Response("none", { status: 404 }) : new Response(text);
  },
} as unknown as Fetcher;

async function ask(path: string, { method = "GET", has = true } = {}): Promise<Response> {
  const { CONSOLE: _, ...others } = env;
  return await worker.fetch(
    new Request(`http://gateway${path}`, { method }) as Parameters<typeof worker.fetch>[0],
    { ...others, ...(has && { CONSOLE: assets }) } as Parameters<typeof worker.fetch>[1],
  );
}

describe("/console", () => {
  test.each([
    "/console",
    "/console/",
    "/console/jobs/01M8?x=1",
    "/console/files/master.photos/a%2Fb.txt",
  ])("is the page, whatever page of the console is named: %s", async (path) => {
    const answer = await ask(path);
    expect([answer.status, await answer.text()]).toEqual([200, "<page>"]);
    expect(answer.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(answer.headers.get("cache-control")).toBe("no-cache");
  });

  test("lets no script in but its own, and nobody frame it or reach it", async () => {
    for (const path of ["/console", "/console/assets/main-AB12.js", "/console/assets/none.js"]) {
      const { headers } = await ask(path);
      const policy = headers.get("content-security-policy") ?? "";
      expect(policy).toContain("default-src 'self'; img-src 'self' blob: data:; media-src 'self' blob:;");
      expect(policy).toContain("frame-ancestors 'none'");
      expect(policy).not.toContain("unsafe");
      // Of two policies both hold.
      expect(policy.split(", ").at(-1)).toBe("script-src *:*/console/assets/; style-src *:*/console/assets/");
      expect(headers.get("x-content-type-options")).toBe("nosniff");
      expect(headers.get("cross-origin-opener-policy")).toBe("same-origin");
      expect(headers.get("referrer-policy")).toBe("no-referrer");
    }
  });

  test("has its files under names that change with their content, for good", async () => {
    const answer = await ask("/console/assets/main-AB12.js");
    expect(await answer.text()).toBe("run()");
    expect(answer.headers.get("content-type")).toBe("text/javascript; charset=utf-8");
    expect(answer.headers.get("cache-control")).toContain("immutable");
    expect(await (await ask("/console/assets/main-AB12.js", { method: "HEAD" })).text()).toBe("");
  });

  test.each([
    "/console/assets/",
    "/console/assets/none.js",
    "/console/assets/%2e%2e%2findex.html",
    "/console/assets/.hidden",
    "/console/assets/a/main-AB12.js",
  ])("has no file %s", async (path) => {
    expect((await ask(path)).status).toBe(404);
  });

  test("is only read", async () => {
    const answer = await ask("/console", { method: "PUT" });
    expect([answer.status, answer.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  });

  test("says so if the gateway is served without it", async () => {
    const answer = await ask("/console", { has: false });
    expect([answer.status, await answer.text()]).toEqual([404, "This gateway has no console.\n"]);
  });

  test("takes no bucket's path: master.console is one", async () => {
    const answer = await ask("/master.console/key");
    expect(answer.status).toBe(403);
    expect(await answer.text()).toContain("<Code>AccessDenied</Code>");
  });
});
