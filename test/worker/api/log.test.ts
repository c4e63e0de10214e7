import { expect, test } from "vitest";
import { failed, ROOT } from "./support.ts";

test("the log of a gateway without a host, as on Cloudflare, is where the platform keeps it", async () => {
  expect(await failed("GET /admin/log")).toMatchObject({
    status: 501,
    code: "NotImplemented",
    message: expect.stringContaining("Workers Logs has it"),
  });
  const limited = { ...ROOT, scope: { ...ROOT.scope, repos: ["people"] } };
  expect(await failed("GET /admin/log", { caller: limited })).toMatchObject({ status: 403 });
});
