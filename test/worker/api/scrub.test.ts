import { describe, expect, test } from "vitest";
import { failed, ROOT } from "./support.ts";

describe("a scrub of a gateway without a host, as on Cloudflare", () => {
  test.each(["POST", "GET"])("is refused (%s), and says what the platform keeps", async (method) => {
    const call = method === "POST" ? { body: { id: "one" } } : {};
    expect(await failed(`${method} /admin/scrub`, call)).toMatchObject({
      status: 501,
      code: "NotImplemented",
      message: expect.stringMatching(/^There is no scrub on Cloudflare: .* for up to 30 days/),
    });
  });

  test("is for admins of all repos alone, and bad requests name the field", async () => {
    const limited = { ...ROOT, scope: { ...ROOT.scope, repos: ["people"] } };
    for (const call of [
      { caller: limited },
      { caller: { ...ROOT, scope: { ...ROOT.scope, level: "write" } } },
    ]) {
      expect(await failed("POST /admin/scrub", { ...call, body: { id: "one" } } as never)).toMatchObject({
        status: 403,
      });
    }
    expect(await failed("POST /admin/scrub", { body: { all: 1 } })).toMatchObject({
      status: 400,
      issues: [{ path: "id" }, { path: "all" }],
    });
  });
});
