import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { pipelineJsonSchema } from "../../../protocol/spec-schema.ts";
import { ROOT } from "../../support/dev-server.ts";
import { EVERY_FIELD, FIELDS, type Held, RULES } from "./table.ts";

/** The fields that the contract has from the beginning, by their path. */
const SPECIFIED = [
  "pipeline",
  "pipeline.name",
  "transform",
  "transform.image",
  "transform.cmd",
  "transform.stdin",
  "transform.env",
  "transform.secrets",
  "transform.imagePullSecrets",
  "transform.acceptReturnCode",
  "parallelism_spec",
  "parallelism_spec.strategy",
  "parallelism_spec.constant",
  "parallelism_spec.coefficient",
  "inputs",
  "inputs[].name",
  "inputs[].repo",
  "inputs[].repo.name",
  "inputs[].branch",
  "inputs[].glob",
  "inputs[].lazy",
  "inputs[].from",
  "outputBranch",
  "egress",
  "egress.URL",
];

/** The headings of docs/contract.md, in order. */
const CONTRACT = [...readFileSync(join(ROOT, "docs/contract.md"), "utf8").matchAll(/^## (.*)$/gm)].map(
  ([, heading = ""]) => heading,
);

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly oneOf?: readonly Schema[];
}

function fieldsOf(schema: Schema, above = ""): string[] {
  const fields = Object.entries(schema.properties ?? {}).flatMap(([name, field]) => {
    const path = above === "" ? name : `${above}.${name}`;
    return [path, ...fieldsOf(field, path)];
  });
  const items = schema.items ? fieldsOf(schema.items, `${above}[]`) : [];
  const options = (schema.oneOf ?? []).flatMap((option) => fieldsOf(option, above));
  return [...new Set([...fields, ...items, ...options])];
}

const IMPLEMENTED = fieldsOf(pipelineJsonSchema() as Schema);

describe("the table of the specification", () => {
  test("names every field that is specified", () => {
    const named = new Set(FIELDS.map(([path]) => path));
    expect(SPECIFIED.filter((path) => !named.has(path))).toEqual([]);
  });

  test("names a test for every field that is accepted, and for no other", () => {
    expect([...new Set(FIELDS.map(([path]) => path))].toSorted()).toEqual(IMPLEMENTED.toSorted());
  });

  test("has something for each heading of the contract up to the objects, and for no other", () => {
    const headings = CONTRACT.slice(0, CONTRACT.indexOf("Buckets and objects") + 1);
    expect(headings.length).toBe(7);
    const parts = ["transform", "parallelism_spec", "inputs"].map((part) => `${headings[0]}, ${part}`);
    expect(new Set(RULES.map(([rule]) => rule.replace(/: .*/, "")))).toEqual(
      new Set([...headings, ...parts]),
    );
  });

  test.each([EVERY_FIELD, ...FIELDS, ...RULES])("%s: there is the test, in %s: %s", (...held: Held) => {
    const [, file, name] = held;
    const path = join(ROOT, "test", file);
    expect(existsSync(path), `${file} is there`).toBe(true);
    const source = readFileSync(path, "utf8");
    expect(titlesOf(source), `${file} has the test`).toContain(name);
    expect(source, `${file} leaves nothing out`).not.toMatch(/\b(describe|test|it)\.(skip|only|todo)\b/);
  });
});

/**
 * What tests are called: the first argument of `test(…)`, `it(…)`, `needs(…)`, and of the call behind `.each(…)`. Of a
 * test that is there once for each tool, what follows the tool's name.
 */
function titlesOf(source: string): string[] {
  const titles = source.matchAll(
    /(?:\b(?:test|it|needs)|\))\(\s*(?:("(?:[^"\\]|\\.)*")|`\$\{name\}: ([^`]*)`)\s*,/g,
  );
  return [...titles].map(([, plain, ofTool]) => ofTool ?? (JSON.parse(plain ?? '""') as string));
}
