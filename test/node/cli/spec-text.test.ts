import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { readYaml } from "../../../protocol/spec-text.ts";

test("a text of which a name is a list is read, and nothing else is said on stderr", async () => {
  const warnings: Error[] = [];
  const note = (warning: Error) => warnings.push(warning);
  process.on("warning", note);
  try {
    expect(readYaml("? [a, b]\n: 1\n")).toEqual({ ok: true, value: { "[ a, b ]": 1 } });
    await setImmediate();
    expect(warnings).toEqual([]);
  } finally {
    process.off("warning", note);
  }
});
