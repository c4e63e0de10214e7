/** What a specification is written in. */
export type Language = "json" | "yaml";

/** JSON begins with its object; what begins otherwise is YAML. */
export function languageOf(text: string): Language {
  return /^\s*(\{|$)/.test(text) ? "json" : "yaml";
}

/** What an update begins with: the text that was submitted if it is kept and can be edited here, else the specification as JSON. */
export function editable(spec: unknown, text: string | undefined): string {
  if (text !== undefined && (languageOf(text) === "yaml" || isJson(text))) return text;
  return `${JSON.stringify(spec, null, 2)}\n`;
}

export function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
