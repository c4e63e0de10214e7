import * as models from "@kubernetes/client-node";

interface Attribute {
  readonly baseName: string;
  readonly type: string;
}

/** The model of an API object, as the client was generated from the API's own description. */
interface Model {
  getAttributeTypeMap(): readonly Attribute[];
}

const MODELS = models as unknown as Readonly<Record<string, Partial<Model> | undefined>>;

function attributesOf(type: string): readonly Attribute[] | undefined {
  return MODELS[type]?.getAttributeTypeMap?.();
}

/**
 * What of a value is no API object of this type, such as `V1DaemonSet`: fields that there are not, and values of another
 * kind than the field's. Not what only a server can tell: fields that must be there, and what they may say.
 */
export function foreignTo(type: string, value: unknown, path = "$"): string[] {
  if (value === undefined || value === null || type === "any" || type === "object") return [];
  const item = /^Array<(.+)>$/.exec(type)?.[1];
  if (item) return ofArray(item, value, path);
  const entry = /^\{ \[key: string\]: (.+); \}$/.exec(type)?.[1];
  if (entry) return ofObject(value, path, () => entry);
  if (type === "IntOrString") return ofKinds(["string", "number"], value, path);
  if (type === "string" || type === "number" || type === "boolean") return ofKinds([type], value, path);
  if (type === "Date") return ofKinds(["string"], value, path);
  const attributes = attributesOf(type);
  if (!attributes) return [`${path}: the client knows no ${type}`];
  return ofObject(value, path, (name) => attributes.find(({ baseName }) => baseName === name)?.type);
}

function ofKinds(kinds: readonly string[], value: unknown, path: string): string[] {
  return kinds.includes(typeof value)
    ? []
    : [`${path}: ${JSON.stringify(value)} is no ${kinds.join(" or ")}`];
}

function ofArray(item: string, value: unknown, path: string): string[] {
  if (!Array.isArray(value)) return [`${path}: is no list`];
  return value.flatMap((one, index) => foreignTo(item, one, `${path}[${index}]`));
}

function ofObject(value: unknown, path: string, typeOf: (name: string) => string | undefined): string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [`${path}: is no object`];
  return Object.entries(value).flatMap(([name, one]) => {
    const type = typeOf(name);
    return type ? foreignTo(type, one, `${path}.${name}`) : [`${path}.${name}: there is no such field`];
  });
}
