import { describe, expect, it } from "vitest";
import doc from "../../../docs/pipeline-spec.md?raw";
import { pipelineJsonSchema } from "../../../protocol/spec-schema.ts";
import shipped from "../../../schema/pipeline.schema.json";
import { parseGlob } from "../../../worker/core/glob.ts";

interface Schema {
  readonly description?: string;
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly oneOf?: readonly Schema[];
}

/** Every field, `inputs[].glob`, with its schema. Of the two strategies, the one that uses a number tells of it. */
function fieldsOf(schema: Schema, above = ""): Map<string, Schema> {
  const fields = new Map<string, Schema>();
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    const path = above === "" ? name : `${above}.${name}`;
    if (field.description?.startsWith("Ignored")) continue;
    fields.set(path, field);
    const deeper = [fieldsOf(field, path), ...(field.oneOf ?? []).map((one) => fieldsOf(one, path))];
    if (field.items) deeper.push(fieldsOf(field.items, `${path}[]`));
    for (const more of deeper) for (const [inner, innerField] of more) fields.set(inner, innerField);
  }
  return fields;
}

const FIELDS = fieldsOf(pipelineJsonSchema() as Schema);

const SECTIONS = new Map(
  doc
    .split(/^### /m)
    .slice(1)
    .map((section) => {
      const [, path = "", text = ""] = /^`(.+?)`\n([\s\S]*?)(?=^## |$(?![\s\S]))/m.exec(section) ?? [];
      return [path, text] as const;
    }),
);

describe("the JSON Schema", () => {
  it("that is shipped is that of the gateway: else run 'npm run schema:generate'", () => {
    expect(shipped).toEqual(JSON.parse(JSON.stringify(pipelineJsonSchema())));
  });

  it("describes every field", () => {
    for (const [path, { description }] of FIELDS) expect(description, path).toMatch(/^[A-Z].*\.$/s);
  });

  it("has the defaults that the gateway fills in", () => {
    const defaults = [...FIELDS].flatMap(([path, field]) =>
      "default" in field ? [[path, field.default]] : [],
    );
    expect(Object.fromEntries(defaults)).toEqual({
      parallelism_spec: { strategy: "COEFFICIENT", coefficient: 1 },
      inputs: [],
      "inputs[].branch": "master",
      "inputs[].lazy": false,
      outputBranch: "master",
      datumTries: 3,
    });
  });
});

describe("the page about the specification", () => {
  it("has a section for each field of the schema and for no other", () => {
    expect([...SECTIONS.keys()].toSorted()).toEqual([...FIELDS.keys()].toSorted());
  });

  it.each([...FIELDS])("says of %s what the schema says, its default, and shows it", (path, field) => {
    const section = SECTIONS.get(path) ?? "";
    expect(section).toContain(field.description);
    if ("default" in field) expect(section).toContain(`Default: \`${spaced(field.default)}\``);
    if (field.properties) return;
    const name = path.split(".").at(-1)?.replace("[]", "") ?? "";
    if (name !== "parallelism_spec")
      expect(section).toMatch(new RegExp(`\`\`\`json[^\`]*"${escaped(name)}"`));
  });

  const rows = [...doc.matchAll(/^\| `(\/.*?)` \|.*\| (`\/.*`) \|$/gm)].map(
    ([, glob = "", datums = ""]) => [glob.replaceAll("\\|", "|"), datums.slice(1, -1).split("` `")] as const,
  );

  it("has many globs", () => {
    expect(rows.length).toBeGreaterThan(12);
  });

  it.each(rows)("tells the truth about the glob %s", (glob, datums) => {
    const parsed = parseGlob(glob);
    if (!parsed.ok) throw new Error(parsed.problem);
    const paths = ["", ".dot", "bar", "bar/bar-1", "bar/bar-2", "bar/deep", "bar/deep/x.csv"];
    paths.push("foo-1", "foo-2", "été 1.csv");
    expect(paths.filter(parsed.glob.matches).map((path) => `/${path}`)).toEqual(datums);
  });
});

/** JSON as people write it. */
function spaced(value: unknown): string {
  if (typeof value === "string") return value;
  return JSON.stringify(value, null, 1)
    .replace(/\s*\n\s*/g, " ")
    .replace("[ ]", "[]");
}

function escaped(name: string): string {
  return name.replace("$", "\\$");
}
