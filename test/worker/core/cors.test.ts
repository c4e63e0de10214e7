import { describe, expect, test } from "vitest";
import { accessControl, type CorsRule, type CrossOrigin } from "../../../worker/core/cors.ts";

function rule(more: Partial<CorsRule>): CorsRule {
  return { origins: ["*"], methods: ["GET"], headers: [], exposed: [], ...more };
}

function allowed(
  rules: readonly CorsRule[],
  asked: Partial<CrossOrigin>,
): Record<string, string> | undefined {
  return accessControl(rules, { origin: "http://www.example.com", method: "GET", headers: [], ...asked });
}

/** The rules of the S3 User Guide's page "Elements of a CORS configuration", as it writes them. */
const GUIDE = [
  rule({
    origins: ["http://www.example1.com"],
    methods: ["PUT", "POST", "DELETE"],
    headers: ["*"],
  }),
  rule({
    origins: ["http://www.example2.com"],
    methods: ["PUT", "POST", "DELETE"],
    headers: ["*"],
  }),
  rule({ origins: ["*"], methods: ["GET"] }),
];

describe("the first rule counts whose origin, method and headers all fit", () => {
  test.each<[string, string, readonly string[], string | undefined]>([
    ["http://www.example1.com", "PUT", ["x-amz-meta-a", "content-type"], "http://www.example1.com"],
    ["http://www.example2.com", "DELETE", [], "http://www.example2.com"],
    ["http://www.example1.com", "GET", [], "*"],
    ["http://elsewhere.test", "GET", [], "*"],
    ["http://elsewhere.test", "PUT", [], undefined],
    ["http://elsewhere.test", "GET", ["x-custom"], undefined],
    ["https://www.example1.com", "PUT", [], undefined],
    ["http://www.example1.com:8080", "PUT", [], undefined],
    ["http://www.example1.com", "HEAD", [], undefined],
    ["null", "GET", [], "*"],
  ])("%s %s %j", (origin, method, headers, expected) => {
    expect(allowed(GUIDE, { origin, method, headers })?.["access-control-allow-origin"]).toBe(expected);
  });

  test("and an earlier rule wins over a later one that fits, too", () => {
    const rules = [rule({ methods: ["GET", "PUT"], maxAgeSeconds: 1 }), rule({ maxAgeSeconds: 2 })];
    expect(allowed(rules, {})?.["access-control-max-age"]).toBe("1");
    expect(allowed(rules.toReversed(), {})?.["access-control-max-age"]).toBe("2");
  });

  test("and none fits without rules", () => {
    expect(allowed([], {})).toBeUndefined();
  });
});

describe("a wildcard", () => {
  test.each([
    ["http://*.example.com", "http://www.example.com", true],
    ["http://*.example.com", "http://a.b.example.com", true],
    ["http://*.example.com", "http://.example.com", true],
    ["http://*.example.com", "http://example.com", false],
    ["http://*.example.com", "http://www.example.com.evil.test", false],
    ["http://*.example.com", "https://www.example.com", false],
    ["*.suffix", "foo.suffix", true],
    ["*.suffix", "foo.suffix.get", false],
    ["start*end", "startend", true],
    ["start*end", "start1end", true],
    ["start*end", "start1end2", false],
    ["start*end", "0start12end", false],
    ["prefix*", "prefix", true],
    ["prefix*", "bla.prefix", false],
    ["aba*aba", "aba", false],
    ["a.c", "abc", false],
  ])("in the origin %s fits %s: %s", (pattern, origin, fits) => {
    const answer = allowed([rule({ origins: [pattern] })], { origin });
    expect(answer?.["access-control-allow-origin"]).toBe(fits ? origin : undefined);
  });

  test.each([
    ["x-amz-*", "x-amz-meta-a", true],
    ["X-AMZ-*", "x-Amz-Date", true],
    ["x-amz-*", "content-type", false],
    ["*", "anything", true],
    ["Content-Type", "content-type", true],
    ["content-type", "content-types", false],
  ])("in the header %s fits %s, whatever the case: %s", (pattern, name, fits) => {
    const answer = allowed([rule({ headers: [pattern] })], { headers: [name] });
    expect(answer?.["access-control-allow-headers"]).toBe(fits ? name.toLowerCase() : undefined);
  });

  test("that fits some of the headers is not enough", () => {
    const rules = [rule({ headers: ["x-amz-*"] })];
    expect(allowed(rules, { headers: ["x-amz-date", "content-type"] })).toBeUndefined();
    expect(allowed(rules, { headers: ["x-amz-date", "x-amz-acl"] })).toBeDefined();
  });
});

test("a page is told all that its browser wants to know", () => {
  const one = rule({
    origins: ["https://app.example"],
    methods: ["GET", "PUT"],
    headers: ["*"],
    exposed: ["ETag", "x-amz-version-id"],
    maxAgeSeconds: 3000,
  });
  expect(
    accessControl([one], {
      origin: "https://app.example",
      method: "PUT",
      headers: ["content-type", "X-Custom"],
    }),
  ).toEqual({
    "access-control-allow-origin": "https://app.example",
    "access-control-allow-methods": "GET, PUT",
    "access-control-allow-credentials": "true",
    "access-control-allow-headers": "content-type, x-custom",
    "access-control-expose-headers": "ETag, x-amz-version-id",
    "access-control-max-age": "3000",
  });
});

test("a rule for all pages lets none of them in with credentials", () => {
  expect(allowed([rule({})], {})).toEqual({
    "access-control-allow-origin": "*",
    "access-control-allow-methods": "GET",
  });
});
