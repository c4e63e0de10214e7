import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { GatewayError } from "../../../cli/gateway/client.ts";
import { CliError, EXIT, reportFailure, UsageError } from "../../../cli/output/failure.ts";
import { ROOT } from "../../support/dev-server.ts";

const CONTRACT = readFileSync(join(ROOT, "docs/contract.md"), "utf8");

/** The codes of the table of a section. */
function codesUnder(heading: string): number[] {
  const section = CONTRACT.split(/^## /m).find((text) => text.startsWith(`${heading}\n`)) ?? "";
  const [, table = ""] = /^\| exit code \| means \|\n\|.*\n((?:\|.*\n)+)/m.exec(section) ?? [];
  return [...table.matchAll(/^\| ([\d, ]+) \|/gm)].flatMap(([, codes = ""]) => codes.split(", ").map(Number));
}

const codeOf = (error: unknown) => reportFailure(error, { json: false }).exitCode;

describe("exit codes", () => {
  test("are those of the table in the contract", () => {
    expect(codesUnder("Command line")).toEqual(Object.values(EXIT));
  });

  test("of datum run are among them", () => {
    const own = codesUnder("Running a datum again");
    expect(own.length).toBeGreaterThan(4);
    expect(own.filter((code) => !codesUnder("Command line").includes(code))).toEqual([]);
  });

  test.each([
    [new UsageError("no"), EXIT.usage],
    [new CliError("no"), EXIT.failed],
    [new CliError("no", { code: "NoSuchKey" }), EXIT.absent],
    [new CliError("no", { code: "ENOENT" }), EXIT.absent],
    [new GatewayError("no", { status: 404, code: "NoSuchBucket" }), EXIT.absent],
    [new GatewayError("no", { status: 400, code: "NoSuchContent" }), EXIT.failed],
    [new GatewayError("no", { status: 403, code: "AccessDenied" }), EXIT.failed],
    [new GatewayError("no", { status: 503, code: "Unavailable" }), EXIT.unreachable],
    [new GatewayError("no", { status: 502, code: "Http502" }), EXIT.unreachable],
    [new GatewayError("no", { status: 503, code: "StorageFull" }), EXIT.diskFull],
    [new CliError("no", { code: "ENOSPC" }), EXIT.diskFull],
    [new Error("no"), EXIT.failed],
  ])("tell failures apart: %o ends with %i", (error, code) => {
    expect(codeOf(error)).toBe(code);
  });

  test("a fault of the file system names its file first, in words", () => {
    try {
      readFileSync("/nowhere/at/all");
    } catch (error) {
      expect(reportFailure(error, { json: false })).toEqual({
        exitCode: EXIT.absent,
        text: "error: /nowhere/at/all: no such file or directory\n",
      });
    }
    expect.assertions(1);
  });
});
