import type { RepoList } from "../../../../protocol/repos.ts";
import schema from "../../../../schema/pipeline.schema.json" with { type: "json" };
import type { Place } from "./place.ts";

/** What of JSON Schema the specification's has. */
interface Schema {
  readonly type?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
}

const SPEC_SCHEMA: Schema = schema;

/** Something that may stand at a place. */
export interface Offer {
  /** A name without its quotes, or a value as JSON has it. */
  readonly label: string;
  /** What it is, in a word. */
  readonly detail: string;
  /** What it is for. */
  readonly info: string | undefined;
  /** What is written, as JSON has it: `^` is where the cursor goes on. */
  readonly text: string;
  /** Of that what stands behind a name. Absent: it is a value, or a name that has one. */
  readonly blank?: string;
  /** What the object can't do without. */
  readonly isRequired: boolean;
}

/** What may stand at a place, by the schema: the names that an object still lacks, or the values that a field knows. */
export function offersAt({ path, kind, names, hasValue }: Place, root: Schema = SPEC_SCHEMA): Offer[] {
  const schemas = schemasAt(path, root);
  const offers = schemas.flatMap((one) =>
    kind === "name" ? nameOffers(one, { names, hasValue }) : valueOffers(one),
  );
  // Of a choice between several, what is in all of them is offered once.
  return [...new Map(offers.map((offer) => [offer.label, offer])).values()];
}

/** The repos, or the branches, that may stand where an input says what it reads. Undefined: it is another place. */
export function inputOffers({ path, kind }: Place, repos: RepoList["repos"]): Offer[] | undefined {
  const [first, index, ...rest] = path;
  if (kind !== "value" || first !== "inputs" || typeof index !== "number") return undefined;
  const named: Readonly<Record<string, readonly string[]>> = {
    "repo.name": repos.map(({ name }) => name),
    branch: [...new Set(repos.flatMap(({ branches }) => branches))],
  };
  return named[rest.join(".")]?.map((name) => {
    const label = JSON.stringify(name);
    return { label, detail: "", info: undefined, text: `${label}^`, isRequired: false };
  });
}

/** The schemas that hold at a path: several, where there is a choice. */
function schemasAt(path: readonly (string | number)[], root: Schema): Schema[] {
  let schemas = choicesOf(root);
  for (const step of path) {
    schemas = schemas
      .flatMap((one) => (typeof step === "number" ? one.items : propertyOf(one, step)) ?? [])
      .flatMap(choicesOf);
  }
  return schemas;
}

function propertyOf({ properties, additionalProperties }: Schema, name: string): Schema | undefined {
  const known = properties && Object.hasOwn(properties, name) ? properties[name] : undefined;
  return known ?? (typeof additionalProperties === "object" ? additionalProperties : undefined);
}

/** The words of a choice hold for each of its cases. */
function choicesOf(one: Schema): Schema[] {
  const cases = one.anyOf ?? one.oneOf;
  if (!cases) return [one];
  return cases.flatMap((each) =>
    choicesOf({ ...(one.description !== undefined && { description: one.description }), ...each }),
  );
}

function nameOffers(
  { properties = {}, required = [] }: Schema,
  { names, hasValue }: Pick<Place, "names" | "hasValue">,
): Offer[] {
  return Object.entries(properties)
    .filter(([name]) => !names.includes(name))
    .map(([name, property]) => {
      const isRequired = required.includes(name);
      const offer = {
        label: name,
        detail: isRequired ? `${typeOf(property)}, needed` : typeOf(property),
        info: property.description,
        isRequired,
      };
      const blank = blankOf(property);
      return hasValue ? { ...offer, text: `"${name}"^` } : { ...offer, text: `"${name}": ${blank}`, blank };
    });
}

function valueOffers(one: Schema): Offer[] {
  const values = knownValues(one);
  if (values.length === 0) {
    const blank = blankOf(one);
    if (blank === "^" || blank === '"^"') return [];
    return [
      {
        label: blank.replace("^", ""),
        detail: typeOf(one),
        info: one.description,
        text: blank,
        isRequired: false,
      },
    ];
  }
  return values.map((value) => {
    const label = JSON.stringify(value);
    const detail = value === one.default ? "default" : "";
    return { label, detail, info: one.description, text: `${label}^`, isRequired: false };
  });
}

/** The values that a field has by its schema, or begins with. */
function knownValues({ enum: values, const: only, type, default: preset }: Schema): readonly unknown[] {
  if (values) return values;
  if (only !== undefined) return [only];
  if (type === "boolean") return [true, false];
  return preset !== undefined && typeof preset !== "object" ? [preset] : [];
}

function typeOf(one: Schema): string {
  const [first = one] = choicesOf(one);
  return first.type === "array" ? "list" : (first.type ?? "");
}

/** A value of its type with nothing in it. */
function blankOf(one: Schema): string {
  const values = knownValues(one);
  if (values.length > 0) return `${JSON.stringify(one.default ?? values[0])}^`;
  const [first = one] = choicesOf(one);
  const blanks: Readonly<Record<string, string>> = { object: "{ ^ }", array: "[^]", string: '"^"' };
  return blanks[first.type ?? ""] ?? "^";
}
