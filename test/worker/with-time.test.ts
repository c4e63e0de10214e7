import { expect, test } from "vitest";
import { withTime } from "../../worker/app.ts";

const NOON = Date.UTC(2026, 0, 1, 12);

test("a refusal tells the time, by which those who signed by a wrong clock sign again", () => {
  const refused = withTime(new Response("no", { status: 403 }), NOON);
  expect(refused.headers.get("date")).toBe("Thu, 01 Jan 2026 12:00:00 GMT");
});

test("other answers are as they were", () => {
  expect(withTime(new Response("yes"), NOON).headers.has("date")).toBe(false);
});
