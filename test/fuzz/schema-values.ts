import fc from "fast-check";
import { z } from "zod";
import { oddText } from "./text.ts";

/*
 * Values that a schema of zod takes, or nearly: by its JSON Schema, which has no rules that need more than one field. The fields
 * of some names have words of their own, as the one who looks at the value knows them.
 */

/** Values for the fields of a name, wherever they stand. */
export type Words = Readonly<Record<string, readonly unknown[]>>;

interface JsonSchema {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly unknown[];
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly allOf?: readonly JsonSchema[];
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: JsonSchema | boolean;
  readonly propertyNames?: JsonSchema;
  readonly items?: JsonSchema | false;
  readonly prefixItems?: readonly JsonSchema[];
  readonly pattern?: string;
  readonly format?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
}

/** What a schema takes. */
export function valueFor(schema: z.ZodType, words: Words = {}): fc.Arbitrary<unknown> {
  return of(z.toJSONSchema(schema, { io: "input", unrepresentable: "any", reused: "inline" }) as JsonSchema, {
    words,
  });
}

function of(
  schema: JsonSchema,
  { words, name = "" }: { words: Words; name?: string },
): fc.Arbitrary<unknown> {
  const own = Object.hasOwn(words, name) ? words[name] : undefined;
  if (own)
    return fc.oneof(
      { weight: 9, arbitrary: fc.constantFrom(...own) },
      { weight: 1, arbitrary: made(schema, words) },
    );
  return made(schema, words);
}

function made(schema: JsonSchema, words: Words): fc.Arbitrary<unknown> {
  if ("const" in schema) return fc.constant(schema.const);
  if (schema.enum) return fc.constantFrom(...schema.enum);
  const either = schema.anyOf ?? schema.oneOf;
  if (either) return fc.oneof(...either.map((each) => made(each, words)));
  switch (schema.type) {
    case "object":
      return objects(schema, words);
    case "array":
      return arrays(schema, words);
    case "string":
      return strings(schema);
    case "integer":
      return fc.oneof(
        { weight: 3, arbitrary: fc.integer(near(schema)) },
        { weight: 1, arbitrary: fc.constantFrom(schema.minimum ?? 0, schema.maximum ?? 1) },
      );
    case "number":
      return fc.double({
        min: schema.exclusiveMinimum ?? schema.minimum ?? 0,
        minExcluded: true,
        max: schema.maximum ?? 1e6,
        noNaN: true,
      });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    default:
      return fc.constantFrom(undefined, null, 1, "x", [], {});
  }
}

/** Large numbers are at the bounds. */
function near({ minimum = 0, maximum = Number.MAX_SAFE_INTEGER }: JsonSchema): { min: number; max: number } {
  const min = Math.max(minimum, -1000);
  return { min, max: Math.min(maximum, min + 2000) };
}

function objects(
  { properties = {}, required = [], additionalProperties, propertyNames }: JsonSchema,
  words: Words,
): fc.Arbitrary<unknown> {
  const fields = Object.entries(properties).map(([name, schema]) => {
    const value = of(schema, { words, name });
    const field = value.map((each) => ({ [name]: each }));
    return required.includes(name) ? field : fc.option(field, { nil: {}, freq: 2 });
  });
  const own = fc.tuple(...fields).map((all) => Object.assign({}, ...all) as object);
  if (typeof additionalProperties !== "object" || Object.keys(properties).length > 0) return own;
  const names = propertyNames ? strings(propertyNames) : fc.string({ maxLength: 8 });
  return fc.dictionary(names, made(additionalProperties, words), { maxKeys: 3 });
}

function arrays({ items, prefixItems, minItems = 0 }: JsonSchema, words: Words): fc.Arbitrary<unknown> {
  if (prefixItems) return fc.tuple(...prefixItems.map((each) => made(each, words)));
  return fc.array(made(items || {}, words), { minLength: minItems, maxLength: minItems + 3 });
}

function strings({ pattern, minLength = 0, maxLength = 40 }: JsonSchema): fc.Arbitrary<string> {
  if (pattern !== undefined) return matching(pattern);
  return fc.string({ minLength, maxLength: Math.min(maxLength, minLength + 40), unit: "grapheme" });
}

function matching(pattern: string): fc.Arbitrary<string> {
  try {
    return fc.stringMatching(new RegExp(pattern), { size: "-1" });
  } catch {
    // It has what the grammar of texts has not, such as a look ahead.
    return fc.string({ maxLength: 40 });
  }
}

/** What a value may become at one place. */
const OTHERS: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  2 ** 53,
  1e300,
  "",
  "x",
  [],
  {},
  [[]],
  { x: 1 },
  "\ud800",
  "\u0000",
  "x".repeat(5000),
];

/** A value that is another at one to three places, or lacks something there. */
export function spoiledValue(value: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  const change = fc.record({
    at: fc.nat(1_000_000),
    to: fc.oneof(fc.constantFrom(...OTHERS), oddText),
    how: fc.constantFrom("set", "set", "drop", "add"),
  });
  return fc
    .tuple(value, fc.array(change, { minLength: 1, maxLength: 3 }))
    .map(([whole, changes]) => changes.reduce(changed, structuredClone(whole)));
}

function changed(whole: unknown, { at, to, how }: { at: number; to: unknown; how: string }): unknown {
  const places = [...placesIn(whole)];
  const place = places[at % Math.max(1, places.length)];
  if (place === undefined) return to;
  const [holder, name] = place;
  if (how === "set") Reflect.set(holder, name, structuredClone(to));
  else if (how === "add")
    Reflect.set(holder, Array.isArray(holder) ? holder.length : `${name}X`, structuredClone(to));
  else if (Array.isArray(holder)) holder.splice(Number(name), 1);
  else Reflect.deleteProperty(holder, name);
  return whole;
}

function* placesIn(value: unknown): Generator<readonly [holder: object, name: string]> {
  if (typeof value !== "object" || value === null) return;
  for (const [name, held] of Object.entries(value)) {
    yield [value, name];
    yield* placesIn(held);
  }
}
