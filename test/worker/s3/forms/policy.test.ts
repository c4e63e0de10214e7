import { describe, expect, test } from "vitest";
import { S3Error } from "../../../../worker/s3/answer/errors.ts";
import { checkPolicy, parsePolicy } from "../../../../worker/s3/forms/policy.ts";

const NOW = Date.parse("2026-11-26T12:00:00Z");
const SOON = "2026-11-26T12:01:00.000Z";
const base64 = (text: string): string => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
const policyOf = (document: unknown): string => base64(JSON.stringify(document));

function fault(act: () => unknown): { code: string; message: string } {
  try {
    act();
  } catch (error) {
    if (error instanceof S3Error) return { code: error.code, message: error.message };
    throw error;
  }
  throw new Error("nothing is wrong with it");
}

describe("a policy document", () => {
  test.each([
    ["that is empty", "", "Expecting '{' but found End-of-Input"],
    ["that is not base64", "invalid_base64", "invalid Base64 encoding."],
    ["padded with more than base64 has", `${policyOf({})}====`, "invalid Base64 encoding."],
    ["padded in its middle", `${"=".repeat(19_000)}x`, "invalid Base64 encoding."],
    ["that is not JSON", base64("invalid json"), "Invalid JSON."],
    ["that is a list", base64("[]"), "Invalid JSON."],
    ["that is not UTF-8", btoa("\xff"), "Invalid JSON."],
    ["without expiration", policyOf({ conditions: [] }), "Policy missing expiration."],
    ["without conditions", policyOf({ expiration: SOON }), "Policy missing conditions."],
    [
      "with a field too many",
      policyOf({ expiration: SOON, conditions: [], extra: 1 }),
      'Unexpected: "extra"',
    ],
    ["that expires at no time", policyOf({ expiration: true, conditions: [] }), "Invalid JSON."],
    [
      "that expires some day",
      policyOf({ expiration: "soon", conditions: [] }),
      "Invalid 'expiration' value: 'soon'",
    ],
    [
      "that expires in another month",
      policyOf({ expiration: "2026-13-01T00:00:00Z", conditions: [] }),
      "Invalid 'expiration' value: '2026-13-01T00:00:00Z'",
    ],
    [
      "whose conditions are no list",
      policyOf({ expiration: SOON, conditions: {} }),
      "Invalid 'conditions' value: must be a List.",
    ],
  ])("%s is refused", (_, policy, message) => {
    expect(fault(() => parsePolicy(policy))).toEqual({
      code: "InvalidPolicyDocument",
      message: `Invalid Policy: ${message}`,
    });
  });

  test.each([
    [true, "Invalid condition test: must be a List or Object."],
    [null, "Invalid condition test: must be a List or Object."],
    [[], "Invalid Condition: missing operation identifier."],
    [["like", "$key", "x"], "Invalid Condition: unknown operation 'like'."],
    [["eq", "$key"], "Invalid eq: wrong number of arguments."],
    [["eq", "$key", "x", "y"], "Invalid eq: wrong number of arguments."],
    [["eq", false, "x"], "Invalid JSON."],
    [["starts-with", "$key", 1], "Invalid JSON."],
    [["content-length-range", 1], "Invalid content-length-range: wrong number of arguments."],
    [["content-length-range", 12, false], "Invalid JSON."],
    [["content-length-range", "some", "14"], "Invalid JSON."],
    [["content-length-range", -1, 5], "Invalid JSON."],
    [["content-length-range", 1.5, 5], "Invalid JSON."],
    [{}, "Invalid Simple-Condition: Simple-Conditions must have exactly one property specified."],
    [
      { key: "a", acl: "b" },
      "Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.",
    ],
    [{ key: 1 }, "Invalid Simple-Condition: value must be a string."],
  ])("with the condition %j is refused", (condition, message) => {
    expect(fault(() => parsePolicy(policyOf({ expiration: SOON, conditions: [condition] })))).toEqual({
      code: "InvalidPolicyDocument",
      message: `Invalid Policy: ${message}`,
    });
  });

  test("may lack the padding of its base64, and be broken into lines", () => {
    const text = policyOf({ expiration: SOON, conditions: [{ bucket: "b" }] });
    const broken = (text.match(/.{1,20}/g) ?? []).join("\r\n").replace(/=+$/, "");
    expect(parsePolicy(broken)).toEqual(parsePolicy(text));
  });
});

describe("a form", () => {
  function judge(conditions: readonly unknown[], fields: Record<string, string>, now = NOW) {
    const policy = parsePolicy(policyOf({ expiration: SOON, conditions }));
    return checkPolicy(policy, { bucket: "b", fields: new Map(Object.entries(fields)), now });
  }
  const BUCKET = { bucket: "b" };

  test.each([
    ["as a policy says", [{ key: "a" }], { key: "a" }],
    ["with a name in another case", [["eq", "$Key", "a"]], { key: "a" }],
    ["that begins as a policy says", [["starts-with", "$key", "user/"]], { key: "user/a" }],
    ["that may be anything", [["starts-with", "$key", ""]], { key: "" }],
    [
      "of types that all begin so",
      [["starts-with", "$Content-Type", "text/"]],
      { "content-type": "text/a, text/b" },
    ],
    ["with fields that need no condition", [], { policy: "x", "x-amz-signature": "x", "x-ignore-me": "x" }],
  ])("%s is allowed", (_, conditions, fields) => {
    expect(judge([BUCKET, ...conditions], fields)).toEqual({ min: 0, max: Number.POSITIVE_INFINITY });
  });

  test.each([
    [[BUCKET, { key: "a" }], { key: "b" }, 'Policy Condition failed: ["eq", "$key", "a"]'],
    [[BUCKET, ["eq", "$key", "a"]], { key: "A" }, 'Policy Condition failed: ["eq","$key","a"]'],
    [
      [BUCKET, ["starts-with", "$key", "user/"]],
      { key: "users" },
      'Policy Condition failed: ["starts-with","$key","user/"]',
    ],
    [[BUCKET, { acl: "private" }], {}, 'Policy Condition failed: ["eq", "$acl", "private"]'],
    [[BUCKET, ["starts-with", "$acl", ""]], {}, 'Policy Condition failed: ["starts-with","$acl",""]'],
    [
      [BUCKET, ["eq", "key", "a"], ["starts-with", "$key", ""]],
      { key: "a" },
      'Policy Condition failed: ["eq","key","a"]',
    ],
    [
      [BUCKET, ["starts-with", "$content-type", "text/"]],
      { "content-type": "text/plain, image/png" },
      'Policy Condition failed: ["starts-with","$content-type","text/"]',
    ],
    [[{ bucket: "c" }], {}, 'Policy Condition failed: ["eq", "$bucket", "c"]'],
    [[BUCKET], { key: "a", acl: "private" }, "Extra input fields: key, acl"],
    [[{ key: "a" }], { key: "a" }, "Extra input fields: bucket"],
    [[BUCKET, ["eq", "file", "x"]], { file: "x" }, "Extra input fields: file"],
  ])("under %j with %j is refused", (conditions, fields, message) => {
    expect(fault(() => judge(conditions, fields))).toEqual({
      code: "AccessDenied",
      message: `Invalid according to Policy: ${message}`,
    });
  });

  test("is refused once its policy has expired, whatever else is wrong", () => {
    const expired = fault(() => judge([], { key: "a" }, Date.parse(SOON) + 1));
    expect(expired).toEqual({
      code: "AccessDenied",
      message: "Invalid according to Policy: Policy expired.",
    });
    expect(judge([BUCKET], {}, Date.parse(SOON))).toBeDefined();
  });

  test("has a file of the size in which all ranges agree", () => {
    const ranges = [
      ["content-length-range", 1, 100],
      ["content-length-range", "5", "200"],
    ];
    expect(judge([BUCKET, ...ranges], {})).toEqual({ min: 5, max: 100 });
  });
});
