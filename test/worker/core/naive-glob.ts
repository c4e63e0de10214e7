/** A glob as what it is made of, so that the model need not read it. */
export type Part =
  | { readonly kind: "literal"; readonly character: string }
  | { readonly kind: "any" }
  | { readonly kind: "star" }
  | {
      readonly kind: "class";
      readonly negated: boolean;
      readonly ranges: readonly (readonly [string, string])[];
    };
export type Name = "**" | readonly Part[];

/** The dialect as a definition: `**` stands for any number of names, at the end for one or more. */
export function modelPath(names: readonly Name[], path: readonly string[]): boolean {
  const [first, ...rest] = names;
  if (first === undefined) return path.length === 0;
  if (first === "**") {
    const least = rest.length === 0 ? 1 : 0;
    for (let taken = least; taken <= path.length; taken++)
      if (modelPath(rest, path.slice(taken))) return true;
    return false;
  }
  const [name, ...others] = path;
  return name !== undefined && modelName(first, [...name]) && modelPath(rest, others);
}

function modelName(parts: readonly Part[], name: readonly string[]): boolean {
  const [part, ...rest] = parts;
  if (part === undefined) return name.length === 0;
  if (part.kind === "star") {
    for (let taken = 0; taken <= name.length; taken++) if (modelName(rest, name.slice(taken))) return true;
    return false;
  }
  const [character, ...others] = name;
  return character !== undefined && modelCharacter(part, character) && modelName(rest, others);
}

function modelCharacter(part: Exclude<Part, { kind: "star" }>, character: string): boolean {
  if (part.kind === "any") return true;
  if (part.kind === "literal") return part.character === character;
  const point = (text: string): number => text.codePointAt(0) ?? 0;
  const within = part.ranges.some(
    ([low, high]) => point(low) <= point(character) && point(character) <= point(high),
  );
  return within !== part.negated;
}
