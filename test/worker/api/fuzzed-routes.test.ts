import { expect, test } from "vitest";
import { ROUTES } from "../../../worker/api/routes.ts";
import { FUZZED_ROUTES } from "../../fuzz/gateway/api-routes.ts";

test("the fuzzing of the control API knows every route, and whether it has a query", () => {
  const routes = Object.entries(ROUTES).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, route]) => [`${method} ${path}`, route.query ?? false] as const),
  );
  const fuzzed = Object.entries(FUZZED_ROUTES).map(
    ([name, { query }]) => [name, query !== undefined] as const,
  );
  expect(fuzzed.sort()).toEqual(routes.sort());
});
